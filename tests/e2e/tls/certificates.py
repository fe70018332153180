"""Makes an authority, two certificates for a node and one for a client, as PEM files in the folder it is given."""

import datetime
import ipaddress
import pathlib
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

FOLDER = pathlib.Path(sys.argv[1])
BEGIN = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
END = BEGIN + datetime.timedelta(days=30)


def name(common):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def builder(subject, issuer, key):
    return (x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name(issuer)).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(BEGIN).not_valid_after(END))


def write(stem, certificate, key):
    (FOLDER / f"{stem}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (FOLDER / f"{stem}.key").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))


def main():
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = (builder("helenus test authority", "helenus test authority", authority_key)
                 .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                 .add_extension(x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True)
                 .sign(authority_key, hashes.SHA256()))
    write("ca", authority, authority_key)
    server = [ExtendedKeyUsageOID.SERVER_AUTH]
    client = [ExtendedKeyUsageOID.CLIENT_AUTH]
    for stem, usage in (("node", server), ("node-renewed", server), ("client", client)):
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        certificate = (builder(stem, "helenus test authority", key)
                       .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
                       .add_extension(x509.SubjectAlternativeName(names), critical=False)
                       .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
                       .sign(authority_key, hashes.SHA256()))
        write(stem, certificate, key)


if __name__ == "__main__":
    main()
