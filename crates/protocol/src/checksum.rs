//! The two checksums of an outer frame (v5).

/// Both sides start the CRC-32 of a payload with these bytes.
const CRC32_INITIAL_BYTES: [u8; 4] = [0xFA, 0x2D, 0x55, 0xCA];

const CRC24_INITIAL: u32 = 0x0087_5060;
const CRC24_POLYNOMIAL: u32 = 0x0197_4F0B;

const CRC24_TABLE: [u32; 256] = crc24_table();

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time, with indexes below 256")]
const fn crc24_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 16;
        let mut bit = 0;
        while bit < 8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= CRC24_POLYNOMIAL;
            }
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// The checksum of a frame header.
pub(crate) fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = CRC24_INITIAL;
    for &byte in bytes {
        let index = ((crc >> 16) as u8) ^ byte;
        let step = CRC24_TABLE.get(usize::from(index)).copied().unwrap_or_default();
        crc = ((crc << 8) ^ step) & 0x00FF_FFFF;
    }
    crc
}

/// The checksum of a frame payload.
pub(crate) fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&CRC32_INITIAL_BYTES);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, as the specification tells it.
    fn crc24_slow(bytes: &[u8]) -> u32 {
        let mut crc = CRC24_INITIAL;
        for &byte in bytes {
            crc ^= u32::from(byte) << 16;
            for _ in 0..8 {
                crc <<= 1;
                if crc & 0x0100_0000 != 0 {
                    crc ^= CRC24_POLYNOMIAL;
                }
            }
        }
        crc
    }

    #[test]
    fn the_table_agrees_with_the_definition() {
        for seed in 0..2000_u32 {
            let bytes = seed.wrapping_mul(0x9E37_79B9).to_le_bytes();
            for length in 0..=4 {
                assert_eq!(crc24(&bytes[..length]), crc24_slow(&bytes[..length]));
            }
        }
    }
}
