"""Prints the cases that Record.java answers: operation, type and inputs, separated by tabs.

    python3 cases.py parse | java … Record > parse.tsv

The cases are the same on every run: the random ones come from a fixed seed.
"""

import random
import struct
import sys

SEED = 20250607
rng = random.Random(SEED)


def escape(text):
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def emit(*fields):
    print("\t".join(escape(field) for field in fields))


INTS = ["0", "1", "-1", "+5", "127", "128", "-128", "-129", "32767", "32768", "-32768", "-32769", "2147483647", "2147483648",
        "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
        "-9223372036854775809", "123456789012345678901234567890", "-99999999999999999999", "007", "", "abc", "1.0", "1e3",
        "--1", "+", "-", " 1", "1 ", "0x10", "1_000"]
DECIMALS = ["0", "0.0", "0.00", "-0", "1", "1.0", "1.00", "-1.5", "+1.5", ".5", "5.", ".", "", "1e3", "1E3", "1e+3", "1E-3", "1.23e-10",
            "1e", "1e+", "e5", "123456789.987654321", "0.000001", "0.0000001", "0.00000012", "1e-6", "1e-7", "100", "1E+2", "12E10",
            "1e2147483647", "1e-2147483647", "1e2147483648", "1e-2147483649", "1e99999999999", "1e00000000005", "NaN", "Infinity",
            "1.5f", "1,5", "--1", "1.2.3", "0e10", "0.0e-5", "-0.000", "9999999999999999999999999999999999.99", "1e-00", " 1"]
FLOATS = DECIMALS + ["nan", "-NaN", "+Infinity", "-Infinity", "infinity", "inf", "1.5d", "1.5D", "1.5F", "1e400", "1e-400", "3.4028236e38",
                     "1.4e-45", "1.7976931348623157e308", "4.9e-324", "0.1", "16777217", "1e10f", "f", "1f2", "\t1.5\n", "1e5e5"]
BOOLEANS = ["true", "TRUE", "True", "false", "FALSE", "", "yes", "1", "0", "t", "tRuE"]
BLOBS = ["", "00", "ff", "FF", "0", "0x00", "zz", "deadBEEF", "abc", "0g"]
TEXTS = ["", "abc", "it's", "ä", "€", "𝄞", "a\tb", "a\nb", "\\", "\"", "\x01", "\x7f", "a:b", "@", "日本", "é'"]
UUIDS = ["", "550e8400-e29b-41d4-a716-446655440000", "550E8400-E29B-41D4-A716-446655440000", "d2177dd0-eaa2-11de-a572-001b779c76e3",
         "d2177dd0eaa211dea572001b779c76e3", "d2177dd0-eaa2-11de-a572-001b779c76e", "d2177dd0-eaa2-11de-a572-001b779c76eg",
         "{d2177dd0-eaa2-11de-a572-001b779c76e3}", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "x",
         "00000000-0000-1000-8080-808080808080", "550e8400-e29b-71d4-a716-446655440000", " 550e8400-e29b-41d4-a716-446655440000"]
INETS = ["", "127.0.0.1", "0.0.0.0", "255.255.255.255", "256.0.0.1", "1.2.3", "1.2", "1", "4294967295", "4294967296", "1.2.3.4.5", "1.2.65535",
         "1.2.65536", "1.16777215", "01.02.03.04", "1..2.3", "::", "::1", "2001:db8::1", "2001:DB8:0:0:8:800:200C:417A", "::ffff:1.2.3.4", "::1.2.3.4",
         "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "[::1]", "fe80::1%1", "12345::", "1.2.3.4:80", ":::", "1:2:3:4:5:6:1.2.3.4",
         "::ffff:0:1.2.3.4", "0:0:0:0:0:ffff:102:304", "::ffff:102:304", "::1.02.3.4", "::%", "fe80::1%", "0:0:0:0:0:0ffff:102:304", "::ffff:1.2.3.4%1", "1::2::3", "1:::2", ":1::2", "1::2:",
         "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4::5:6:7:8", "::1.2.3", "1.2.3.4::"]
DATES = ["1970-01-01", "2015-05-03", "2015-5-3", "2015-02-29", "2016-02-29", "2015-02-30", "2015-13-01", "2015-00-01", "2015-01-00", "0000-01-01",
         "-0001-12-31", "-0000-01-01", "10000-01-01", "+10000-01-01", "+2015-01-01", "+5881580-07-11", "+5881580-07-12", "-5877641-06-23",
         "-5877641-06-22", "+999999999-12-31", "-999999999-01-01", "+292278994-01-01", "+292278995-01-01", "0", "1", "2147483648", "2147483647",
         "4294967295", "4294967296", "-1", "99999999999999999999", "", "now", "2015-05-03T", "2015-05-03 00:00", "2015/05/03", "15-05-03", "201505-03",
         "2015-05-03Z", "2015-05-03+01:00", " 2015-05-03", "1582-10-14", "1900-02-29", "2000-02-29", "9999-12-31", "+0123456-01-01", "-12345-01-01", "-0"]
TIMES = ["00:00:00", "23:59:59.999999999", "1:2:3", "01:02:03.4", "01:02:03.", "01:02:03.0000000001", "24:00:00", "23:60:00", "23:59:60", "12:34",
         "12:34:56:78", "12:34:", "::", ":1:2", "0", "86399999999999", "86400000000000", "-1", "99999999999999999999", "", "+1:+2:+3", "-1:00:00",
         " 12:34:56 ", "12:34:56.abc", "12:34:56.1a", "12:34:56.1.2", "08:12:54.123456789", "12 :34:56", "12:34:56 PM", "01:02:03.-5", "01:02:03.+5",
         "000001:2:3", "1:2:3.000"]
STAMPS = ["0", "1", "-1", "1430635556123", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "2015-05-03", "2015-5-3",
          "2015-02-31", "2015-02-32", "2015-13-01", "2015-05-03T13:30", "2015-05-03 13:30", "2015-5-3 1:2", "2015-05-03 13:30:54", "2015-05-03 13:30:54.234",
          "2015-05-03 13:30:54.2", "2015-05-03 13:30:54.", "2015-05-03 13:30:54.123456789", "2015-05-03 13:30:54.1234567890", "2015-05-03 13:30.5",
          "2015-05-03 13:30:54Z", "2015-05-03 13:30:54 Z", "2015-05-03 13:30:54z", "2015-05-03 13:30:54+0100", "2015-05-03 13:30:54+01:00",
          "2015-05-03 13:30:54+01", "2015-05-03 13:30:54+1", "2015-05-03 13:30:54+01:00:30", "2015-05-03 13:30:54 +01:00:30", "2015-05-03 13:30:54 +0100",
          "2015-05-03 13:30:54 +01:00", "2015-05-03 13:30:54 -0730", "2015-05-03 13:30:54-18:00", "2015-05-03 13:30:54-18:01", "2015-05-03 13:30:54+19",
          "2015-05-03 13:30:54 UTC", "2015-05-03 13:30:54 GMT", "2015-05-03 13:30:54 UT", "2015-05-03 13:30:54 GMT0", "2015-05-03 13:30:54 UTC+01:00",
          "2015-05-03 13:30:54 GMT+01", "2015-05-03 13:30:54 GMT+1", "2015-05-03 13:30:54 UTC+0100", "2015-05-03 13:30:54 UTCZ", "2015-05-03 13:30:54 utc",
          "2015-05-03T13:30:54.234Z", "2015-05-03T13:30:54.234+0200", "2015-05-03T13:30:54.234 +0200", "2015-05-03T24:00", "2015-05-03T24:00:00.000",
          "2015-05-03T24:01", "2015-05-03T24:00:00.001", "2015-05-03T25:00", "2015-05-03T23:60", "2015-05-03T23:59:60", "2015-05-03+0100", "2015-05-03 +0100",
          "2015-05-03 +01:00", "2015-05-03 -01:00", "2015-05-03 -0100", "2015-05-03Z", "2015-05-03 Z", "2015-05-03 UTC", "2015-05-03+01:00:30", "2015-5-3Z",
          "0001-01-01", "0000-01-01", "-0001-01-01", "-0001-01-01 00:00", "0000-01-01 00:00", "1-1-1 0:0", "12345-01-01 00:00", "12345-01-01",
          "+12345-01-01", "+12345-01-01 00:00", "292278994-08-17 07:12:55.807", "1582-10-10 00:00", "1900-01-01 00:00:00.001", "2015-05-03  13:30",
          "2015-05-03\t13:30", "2015-05-03t13:30", "20150503", "2015-05", "2015-05-03 13", "2015-05-03 13:", "2015-05-03 13:30:", "", "abc", "yesterday",
          "2011-02-03T04:05:00.000-0000", "2011-02-03 04:05+0000", "2011-02-03T04:05:00.000+00:00", "2011-02-03 04:05:06.001 -0000", "2015--05-03 13:30",
          "2015-05-03 -1:30", "2015-05-03 13:30:54.234 UTC", "2015-05-03 13:30:54.+0100", "2015-05-03 13:30:54.5+01", "0000-01-01-01", "-0001-01-01+01:00", "0000-01-01 +01:00", "-0001-01-01Z", "0000-01-01 Z"]
DURATIONS = ["1y", "2mo", "3w", "4d", "5h", "6m", "7s", "8ms", "9us", "10ns", "9µs", "1y2mo3w4d5h6m7s8ms9us10ns", "-1y2mo", "1Y2MO3W4D5H6M7S8MS9US10NS",
             "12h30m", "33us1us", "1d2y", "2m3h", "0m", "", "1", "1x", "y", "1y2", "1y2x", "P1Y", "P1Y2M3DT4H5M6S", "PT4H", "PT", "P", "P1W", "-P1W", "P1Y2M10D",
             "P1D2Y", "PT2S5M", "P0001-02-03T04:05:06", "-P0001-02-03T04:05:06", "P1-02-03T04:05:06", "P0001-13-40T25:61:61", "P1Y1W", "178956970y", "178956971y",
             "178956970y7mo", "178956970y8mo", "2147483647d", "2147483648d", "306783378w", "306783379w", "9223372036854775807ns", "9223372036854775808ns",
             "2562047h", "2562048h", "2562047h47m16s854ms775us807ns", "2562047h47m16s854ms775us808ns", "p1y", "1mO", "1Mo", "--1y", "-", "+1y", "1 y", "1.5h",
             "P1.5Y", "PT0.5S", "1µS", "P1M", "PT1M", "P10000000000Y", "99999999999999999999y", "1h-30m", "1s1s"]

PARSE = {
    "tinyint": INTS, "smallint": INTS, "int": INTS, "bigint": INTS, "varint": INTS, "decimal": DECIMALS + INTS, "float": FLOATS + INTS,
    "double": FLOATS + INTS, "boolean": BOOLEANS, "blob": BLOBS, "text": TEXTS, "ascii": TEXTS, "uuid": UUIDS, "timeuuid": UUIDS, "inet": INETS,
    "date": DATES, "time": TIMES, "timestamp": STAMPS, "duration": DURATIONS,
    "frozen<tuple<int, text>>": ["1:abc", "1", "@:@", "@", "", "1:a\\:b", "1:\\@", "1:a:b", "x:a", ":", "1:", "a\\:b"],
    "list<int>": ["", "00000000", "zz"],
}


def be(value, size):
    return (value % (1 << (8 * size))).to_bytes(size, "big")


def varint(value):
    size = max(1, ((value if value >= 0 else ~value).bit_length() + 8) // 8)
    return value.to_bytes(size, "big", signed=True)


def vint(value):
    value = (value << 1) ^ (value >> 63)
    size = max(1, (value.bit_length() + 6) // 7)
    if size >= 9:
        return b"\xff" + value.to_bytes(8, "big")
    return (value | (((0xff << (9 - size)) & 0xff) << (8 * (size - 1)))).to_bytes(size, "big")


def uvint(value):
    return bytes([value])  # all our lengths are below 128


def element(bytes_):
    return b"\xff\xff\xff\xff" if bytes_ is None else be(len(bytes_), 4) + bytes_


def listing(items):
    return be(len(items), 4) + b"".join(element(i) for i in items)


INTERESTING = [0, 1, -1, 2, 10, -10, 127, 128, -128, -129, 255, 256, 32767, -32768, 2**31 - 1, -2**31, 2**63 - 1, -2**63, 1430635556123]


def random_int(bits):
    return rng.choice(INTERESTING) if rng.random() < 0.4 else rng.getrandbits(bits) >> rng.randrange(bits)


def random_double():
    choice = rng.randrange(6)
    if choice == 0:
        return struct.unpack(">d", rng.randbytes(8))[0]
    if choice == 1:
        return rng.choice([0.0, -0.0, 1.0, float("inf"), float("-inf"), float("nan"), 1e7, 9999999.0, 0.001, 1e-3, 9.99e-4, 1e21, 4.9e-324])
    if choice == 2:
        return rng.randrange(-10**6, 10**6) / 1000
    if choice == 3:
        return float(rng.randrange(-2**62, 2**62))
    return rng.uniform(-1, 1) * 10.0 ** rng.randrange(-30, 30)


def to_float(value):
    try:
        return struct.pack(">f", value)
    except OverflowError:
        return struct.pack(">f", float("inf"))


def random_text():
    return "".join(rng.choice("ab'\"\\:@\t\n\x01ä€𝄞 zA0") for _ in range(rng.randrange(6)))


def random_value(ty):
    """Bytes of a valid value."""
    if ty in ("tinyint", "smallint", "int", "bigint", "counter", "timestamp", "date"):
        size = {"tinyint": 1, "smallint": 2, "int": 4, "date": 4}.get(ty, 8)
        value = random_int(8 * size) * rng.choice([1, -1])
        if ty == "timestamp" and rng.random() < 0.5:
            value = rng.randrange(-10**14, 10**14)
        if ty == "date" and rng.random() < 0.7:
            value = 2**31 + rng.randrange(-10**6, 10**6)
        return be(value, size)
    if ty == "time":
        return be(rng.randrange(86400 * 10**9) if rng.random() < 0.8 else rng.choice([0, 86400 * 10**9 - 1]), 8)
    if ty == "varint":
        value = varint(random_int(100) * rng.choice([1, -1]))
        if rng.random() < 0.15:
            value = (b"\xff" if value[0] >= 128 else b"\x00") * rng.randrange(1, 3) + value
        return value
    if ty == "decimal":
        scale = rng.choice([0, 1, 2, 3, -1, -2, 5, 7, 10, 40, -40, 2**31 - 1, -2**31]) if rng.random() < 0.7 else rng.randrange(-12, 12)
        unscaled = rng.choice([0, 1, 10, 100, 12, 120, 999, 1000]) if rng.random() < 0.5 else random_int(80)
        return be(scale, 4) + varint(unscaled * rng.choice([1, -1]))
    if ty == "double":
        return struct.pack(">d", random_double())
    if ty == "float":
        return to_float(random_double())
    if ty == "boolean":
        return rng.choice([b"\x00", b"\x01", b"\x01", b"\x02"])
    if ty == "text":
        return random_text().encode()
    if ty == "ascii":
        return random_text().encode("ascii", "replace")
    if ty == "blob":
        return rng.randbytes(rng.randrange(5))
    if ty == "uuid":
        value = bytearray(rng.randbytes(16))
        value[6] = value[6] & 0x0f | rng.choice([1, 1, 4, 7]) << 4
        if rng.random() < 0.3:
            value[:6] = b"\x00\x00\x00\x01\x00\x02"
        return bytes(value)
    if ty == "timeuuid":
        value = bytearray(rng.randbytes(16))
        if rng.random() < 0.5:
            value[:8] = b"\x00\x00\x00" + rng.randbytes(1) + b"\x00\x02\x10\x00"
        value[6] = value[6] & 0x0f | 0x10
        return bytes(value)
    if ty == "inet":
        return rng.choice([rng.randbytes(4), rng.randbytes(16), b"\x7f\x00\x00\x01", bytes(15) + b"\x01", bytes(10) + b"\xff\xff\x01\x02\x03\x04"])
    if ty == "duration":
        sign = rng.choice([1, -1])
        return b"".join(vint(sign * abs(rng.choice([0, 1, rng.randrange(limit)]))) for limit in (100, 1000, 10**14))
    if ty.startswith("frozen<list<"):
        return random_value(ty[7:-1])
    if ty.startswith("list<"):
        return listing([random_value(ty[5:-1]) for _ in range(rng.randrange(4))])
    if ty.startswith("set<"):
        return listing(sorted({random_value(ty[4:-1]) for _ in range(rng.randrange(4))}))
    if ty.startswith("map<"):
        key, value = ty[4:-1].split(", ", 1)
        items = []
        for k in sorted({random_value(key) for _ in range(rng.randrange(3))}):
            items += [element(k), element(random_value(value))]
        return be(len(items) // 2, 4) + b"".join(items)
    if ty.startswith("frozen<tuple<"):
        parts = ty[13:-2].split(", ")
        count = rng.randrange(1, len(parts) + 1) if rng.random() < 0.2 else len(parts)
        return b"".join(element(None if rng.random() < 0.25 else random_value(p)) for p in parts[:count])
    if ty == "frozen<person>":
        parts = ["text", "int", "list<int>"]
        count = rng.randrange(1, 4) if rng.random() < 0.2 else 3
        return b"".join(element(None if rng.random() < 0.25 else random_value(p)) for p in parts[:count])
    if ty.startswith("vector<"):
        inner, dimension = ty[7:-1].rsplit(", ", 1)
        fixed = inner in ("float", "int", "bigint", "double", "boolean", "timestamp", "uuid", "timeuuid")
        parts = [random_value(inner) for _ in range(int(dimension))]
        return b"".join(p if fixed else uvint(len(p)) + p for p in parts)
    raise ValueError(ty)


NATIVE = ["ascii", "bigint", "blob", "boolean", "date", "decimal", "double", "duration", "float", "inet", "int", "smallint", "text", "time",
          "timestamp", "timeuuid", "tinyint", "uuid", "varint"]
NESTED = ["list<int>", "list<text>", "set<text>", "set<varint>", "set<timeuuid>", "map<text, int>", "map<int, text>", "map<uuid, decimal>",
          "frozen<tuple<int, text>>", "frozen<tuple<decimal, boolean, text>>", "frozen<person>", "vector<float, 3>", "vector<text, 2>",
          "vector<smallint, 2>", "list<frozen<tuple<int, text>>>", "list<frozen<person>>", "map<int, frozen<list<int>>>"]
EMPTY = ["ascii", "bigint", "blob", "boolean", "decimal", "double", "float", "inet", "int", "text", "timestamp", "timeuuid", "uuid", "varint",
         "frozen<tuple<int, text>>", "frozen<person>"]


def values(ty, count):
    seen = set()
    if ty in EMPTY:
        seen.add(b"")
        yield b""
    for _ in range(count):
        value = random_value(ty)
        if value not in seen:
            seen.add(value)
            yield value


def shown():
    for ty in NATIVE + NESTED:
        for value in values(ty, 40):
            for operation in ("cql", "plain", "json"):
                empty_fails = operation == "json" and not value and ty in ("boolean", "frozen<tuple<int, text>>")
                if not empty_fails:
                    emit(operation, ty, value.hex())


def validated():
    for ty in NATIVE + NESTED:
        for length in list(range(9)) + [15, 16, 17]:
            emit("validate", ty, bytes(length).hex())
            emit("validate", ty, rng.randbytes(length).hex())
        for value in values(ty, 12):
            emit("validate", ty, value.hex())
            if value:
                emit("validate", ty, value[:-1].hex())
            emit("validate", ty, (value + b"\x00").hex())
            emit("validate", ty, (value + bytes(4)).hex())
    for value in (b"\xc3", b"\xc3\xa4", b"\xff", b"a\x80", b"\xe2\x82", b"\xf0\x9d\x84\x9e"):
        emit("validate", "text", value.hex())
        emit("validate", "ascii", value.hex())
    for parts in ((1, -1, 0), (2**31, 0, 0), (0, 2**31, 0), (0, 0, -1), (-1, -1, -1), (-1, 0, 1)):
        emit("validate", "duration", b"".join(vint(p) for p in parts).hex())


def compared():
    for ty in NATIVE + NESTED:
        if ty == "duration":
            continue
        pool = list(values(ty, 40))
        for _ in range(60):
            a, b = rng.choice(pool), rng.choice(pool)
            emit("compare", ty, a.hex(), b.hex())


JSON = {
    "ints": ["1", "-1", "0", "-0", "2147483648", "9223372036854775808", "1.0", "1.5", "1e3", "\"5\"", "\"abc\"", "\"\"", "true", "[1]", "{}",
             "{\"a\": 1}", "127", "128", "32768", "\"1.5\"", "1E400", "0.1", "\"NaN\"", "[1, \"a\", null, 1.5]", "123456789012345678901234567890",
             "1.10", "3.141592653589793238462643"],
    "strings": ["\"abc\"", "\"\"", "1", "1.5", "true", "[\"a\"]", "\"ä\"", "\"a\\u0001b\"", "9999999999", "{\"k\": \"v\"}"],
    "temporal": ["\"2015-05-03\"", "\"12:34:56.789\"", "\"2015-05-03 13:30:54.234Z\"", "1430635556123", "12345", "\"abc\"", "\"\"", "true", "1.5",
                 "\"2d3h\"", "\"1y-2mo\"", "[]", "\"0\""],
    "misc": ["\"0xdeadbeef\"", "\"0x\"", "\"abc\"", "\"0xabc\"", "\"0xzz\"", "1", "true", "[1]", "99999999999", "\"127.0.0.1\"", "\"::1\"", "\"true\"",
             "\"FALSE\"", "\"d2177dd0-eaa2-11de-a572-001b779c76e3\"", "\"550e8400-e29b-41d4-a716-446655440000\"", "\"\"", "1.5", "{}"],
    "lists": ["[]", "[1]", "[3, 1, 2, 1]", "[\"3\", 1]", "[1, null]", "[\"a\"]", "{}", "1", "\"[1, 2]\"", "[[1]]", "[1.5]", "true", "[1, 2]", "[1, 2, 3]"],
    "maps": ["{}", "{\"1\": \"a\"}", "{\"2\": \"b\", \"1\": \"a\"}", "{\"a\": \"b\"}", "{\"1\": null}", "[]", "1", "\"{\\\"1\\\": \\\"a\\\"}\"", "{\"1\": 1}",
             "{\"1\": \"a\", \"1\": \"b\"}"],
    "tuples": ["[1, \"a\"]", "[1]", "[1, \"a\", 2]", "[null, null]", "[null, \"a\"]", "[\"x\", \"a\"]", "{}", "1", "\"[1, \\\"a\\\"]\"", "[]"],
    "persons": ["{\"name\": \"a\", \"age\": 1}", "{\"NAME\": \"a\"}", "{\"\\\"Home\\\"\": [1, 2]}", "{\"Home\": [1]}", "{\"home\": [1]}", "{\"x\": 1}", "{}",
                "{\"name\": null}", "[]", "1", "{\"age\": \"x\"}", "{\"name\": 1}", "\"{\\\"age\\\": 5}\"", "{\"\\\"Home\\\"\": [null]}"],
}
JSON_OF = {
    "tinyint": "ints", "smallint": "ints", "int": "ints", "bigint": "ints", "varint": "ints", "decimal": "ints", "float": "ints", "double": "ints",
    "text": "strings", "ascii": "strings", "date": "temporal", "time": "temporal", "timestamp": "temporal", "duration": "temporal", "blob": "misc",
    "inet": "misc", "boolean": "misc", "uuid": "misc", "timeuuid": "misc", "list<int>": "lists", "set<int>": "lists", "vector<float, 2>": "lists",
    "vector<int, 3>": "lists", "map<int, text>": "maps", "map<text, text>": "maps", "frozen<tuple<int, text>>": "tuples", "frozen<person>": "persons",
}


BROKEN = ["", "  ", "\n", "[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1}", "{", "{\"a\"", "{\"a\":", "{\"a\": 1", "{\"a\": 1,", "{\"a\": 1,}", "{a: 1}", "{'a': 1}",
          "{\"a\" 1}", "{\"a\": 1]", "{\"a\": }", "{1: 2}", "\"abc", "\"a\nb\"", "\"a\\xb\"", "\"\\u12g4\"", "\"\\u12", "\"\\", "{\"ab", "abc", "tru", "trueish", "nul", "nulls",
          "NaN", "Infinity", "-Infinity", "Nan", "+1", "-", "-a", "01", "-01", "1.", "1.a", "1e", "1e+", "1ex", "1e+x", ".5", "1x", "1 x", "[1] x", "[01]", "[1.]", "]", "}",
          ":", ",", "// c", "[1, /* c */ 2]", "[1,\n 2,\n x]", "\x01", "[\x01]", "'a'", "ä", "€", "[ä]", "\"\\ud834\\udd1e\"", "[1, [2, {\"x\": [3}]]", "#", "[1e5]", "[-]",
          "\"" + "x" * 600, "[" + "1, " * 300 + "x]", "{\"a\": tru}", "[true false]", "[nullx]", "\r\n[x]", "[1\r\n2]", "[\"a\tb\"]", "{\"a\tb\": 1}", "[1, 2", "{\"a\": {\"b\": [", "@", "\u20ac1", "-Infinit", "-INF", "-I", "-Ix", "{\"a\": 1, \"b\": }"]


def broken():
    for json in BROKEN:
        emit("fromjson", "list<text>", json)


def jsons():
    for ty, key in JSON_OF.items():
        for json in dict.fromkeys(JSON[key] + JSON["misc"] + JSON["lists"]):
            emit("fromjson", ty, json)


NUMBERS = ["tinyint", "smallint", "int", "bigint", "varint", "float", "double", "decimal"]


def small_decimal():
    scale = rng.randrange(-12, 12) if rng.random() < 0.8 else rng.randrange(-60, 60)
    return be(scale, 4) + varint(rng.choice([0, 1, 3, 7, 10, 100, random_int(60)]) * rng.choice([1, -1]))


def number(ty):
    if ty == "decimal":
        return small_decimal()
    return random_value(ty)


def operations():
    for left in NUMBERS:
        for right in NUMBERS:
            for operator in "+-*/%":
                for _ in range(3):
                    emit(operator, left, number(left).hex(), right, number(right).hex())
                zero = {"decimal": "0000000000", "varint": "00"}.get(right, bytes({"tinyint": 1, "smallint": 2, "bigint": 8, "double": 8}.get(right, 4)).hex())
                emit(operator, left, number(left).hex(), right, zero)
    for operator in "+-*/%":
        for _ in range(150):
            emit(operator, "decimal", small_decimal().hex(), "decimal", small_decimal().hex())
    for _ in range(150):
        duration = b"".join(vint(p) for p in (rng.choice([0, 0, 1, 13, 25]), rng.choice([0, 1, 40]), rng.choice([0, 10**6, 10**9, 86400 * 10**9, 123])))
        emit(rng.choice("+-"), "timestamp", be(rng.randrange(0, 4 * 10**12), 8).hex(), "duration", duration.hex())
        emit(rng.choice("+-"), "date", be(2**31 + rng.randrange(0, 50000), 4).hex(), "duration", duration.hex())


LITERALS = {
    "STRING": ["", "abc", "ä", "12", "true", "127.0.0.1", "2015-05-03", "12:34:56", "2015-05-03 13:30", "d2177dd0-eaa2-11de-a572-001b779c76e3", "1:2"],
    "INTEGER": ["0", "5", "-7", "300", "70000", "5000000000", "99999999999999999999"],
    "UUID": ["d2177dd0-eaa2-11de-a572-001b779c76e3", "550e8400-e29b-41d4-a716-446655440000"],
    "FLOAT": ["1.5", "0.1", "NaN", "-NaN", "Infinity", "-Infinity", "1e10", "1.00000000000000000000000001", "3.141592653589793238462643"],
    "BOOLEAN": ["true", "FALSE"],
    "HEX": ["0x", "0xff", "0xFFFFFFFF", "0xabc"],
    "DURATION": ["1y2d", "PT5H", "-3h"],
}


def literals():
    for ty in NATIVE + ["counter", "list<int>", "set<int>", "map<int, int>", "frozen<tuple<int, text>>", "frozen<person>", "vector<float, 2>"]:
        for kind, texts in LITERALS.items():
            for text in texts:
                emit("literal", ty, kind, text)


def times():
    for millis in [0, 1, -1, 999, 1000, -1000, -86400000, -86400001, 86399999, 1430635556123, -12219292800000, 253402300799999, -62135596800000]:
        emit("bounds", "timestamp", str(millis))
    for value in values("timeuuid", 40):
        emit("millis", "timeuuid", value.hex())


def functions():
    for ty in NUMBERS:
        for name in ("abs", "exp", "log", "log10", "round"):
            for _ in range(8):
                value = number(ty)
                big = ty in ("decimal", "varint") and name in ("exp", "log", "log10")
                if big:
                    value = varint(rng.randrange(-20, 60)) if ty == "varint" else be(rng.randrange(0, 8), 4) + varint(rng.randrange(-10**6, 10**7))
                    if name != "exp" and rng.random() < 0.4:
                        value = number(ty)
                emit(name, ty, value.hex())
    for text in ("0000000000", "0000000001", "000000010a", "0000000164", "000000000a", "0000000064", "ffffffff01", "000000010f", "0000000119"):
        for name in ("exp", "log", "log10", "round"):
            emit(name, "decimal", text)


def parsed():
    for ty, texts in PARSE.items():
        for text in dict.fromkeys(texts):
            emit("parse", ty, text)


{"parse": parsed, "show": shown, "validate": validated, "compare": compared, "json": jsons, "operate": operations,
 "literal": literals, "broken": broken, "time": times, "function": functions}[sys.argv[1]]()
