"""Keys and messages of SNMPv3."""

from __future__ import annotations

import pytest

from fabricmon.errors import FormatError
from fabricmon.formats.snmp import snmp, snmp_usm
from fabricmon.formats.snmp.snmp import PduType

ENGINE = bytes.fromhex("000000000000000000000002")
OID = (1, 3, 6, 1, 2, 1, 1, 3, 0)


@pytest.mark.parametrize(
    ("digest", "key"),
    [
        ("md5", "526f5eed9fcce26f8964c2930787d82b"),
        ("sha1", "6695febc9288e36282235fc7151f128497b38f3f"),
    ],
)
def test_keys_are_those_of_rfc_3414(digest: str, key: str) -> None:
    """The examples of appendix A.3, `maplesyrup` at engine 2."""
    assert snmp_usm.localized(digest, b"maplesyrup", ENGINE).hex() == key


@pytest.mark.parametrize(("priv", "size"), [("aes128", 16), ("aes192", 24), ("aes256", 32)])
@pytest.mark.parametrize("digest", ["sha1", "sha256", "sha512"])
def test_privacy_keys_have_the_cipher_s_length(digest: str, priv: str, size: int) -> None:
    """Short digests are extended, long ones cut; both kinds of extension begin alike."""
    plain = snmp_usm.privacy_key(digest, priv, b"maplesyrup", ENGINE)
    assert len(plain) == size
    if priv != "aes128":
        other = snmp_usm.privacy_key(digest, priv + "c", b"maplesyrup", ENGINE)
        enough = size <= {"sha1": 20, "sha256": 32, "sha512": 64}[digest]
        assert (plain == other) is enough


def sealed(user: snmp_usm.User, salt: bytes = bytes(8)) -> bytes:
    """A request of this user."""
    pdu = snmp.request(PduType.GET, 0x40000001, [OID])
    plain = snmp_usm.scoped(ENGINE, b"", pdu)
    return snmp_usm.seal(0x40000001, user, ENGINE, 3, 1000, plain, salt)


@pytest.mark.parametrize(
    ("auth", "priv"),
    [("none", "none")]
    + [
        (auth, priv)
        for auth in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
        for priv in ("none", "aes128", "aes192c", "aes256")
    ],
)
def test_what_is_sealed_opens_again(auth: str, priv: str) -> None:
    """Engine, clock and PDU come back at every level of security."""
    user = snmp_usm.user_at(ENGINE, "joe", auth, b"maplesyrup", priv, b"maplesyrup2")
    data = sealed(user)
    opened = snmp_usm.open_message(data, user)
    assert (opened.engine, opened.boots, opened.time) == (ENGINE, 3, 1000)
    assert opened.authentic is (auth != "none")
    assert snmp.decode(opened.payload, opened.at).varbinds[0].oid == OID
    assert (b"\x2b\x06\x01\x02" in data) is (priv == "none")


def test_a_changed_octet_is_noticed() -> None:
    """Whatever octet of a signed message is changed, it does not open."""
    user = snmp_usm.user_at(ENGINE, "joe", "sha256", b"maplesyrup", "aes128", b"maplesyrup2")
    data = sealed(user)
    for i in range(len(data)):
        changed = data[:i] + bytes((data[i] ^ 0x40,)) + data[i + 1 :]
        with pytest.raises(FormatError):
            snmp_usm.open_message(changed, user)


def test_a_user_does_not_print_its_keys() -> None:
    """Neither key is in the text form."""
    user = snmp_usm.user_at(ENGINE, "joe", "sha1", b"maplesyrup", "aes128", b"maplesyrup2")
    assert "key" not in repr(user)
    assert user.auth_key.hex() not in repr(user)
    assert repr(user.auth_key) not in repr(user)
