"""A small authority for TLS tests."""

from __future__ import annotations

import datetime as dt
from ipaddress import ip_address
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fabricmon.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path


class Authority:
    """Signs certificates for 127.0.0.1 and for clients."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        """Make the authority's own certificate, `<name>.pem`."""
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(self._name, self._key, authority=True)
        self.file = folder / f"{name.replace(' ', '-')}.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Files of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key, authority=False)
        paths = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, authority: bool
    ) -> x509.Certificate:
        now = dt.datetime.fromtimestamp(SystemClock().now_ns() / 1e9, dt.UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(_usage(authority=authority), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )


def _usage(*, authority: bool) -> x509.KeyUsage:
    """What the strict checks of Python 3.13 want to see."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
