"""OpenPGP keys of repositories: fetched, and checked by checksum and fingerprint before anything trusts them. No gpg is needed."""

from __future__ import annotations

import base64
import binascii
import hashlib
import http.client
import re
import time
import urllib.request
from pathlib import Path
from typing import Any, List, Mapping

from ansible.module_utils.burnin_group.model import Refusal

ANSWER_S, FETCH_S, MOST_BYTES, CHUNK = 30, 60, 1_000_000, 65_536
ARMOR = re.compile(
    rb"-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(?:[^\r\n]+: [^\r\n]*\r?\n)*\r?\n?(.*?)\r?\n?(?:=[A-Za-z0-9+/]{4}\r?\n)?-----END", re.DOTALL
)
PUBLIC_KEY = 6


def key_of(repository: Mapping[str, Any], present: Path) -> bytes:
    """The key file's bytes: the one that is there when it is right, else fetched. Raises Refusal KEY_WRONG or MIRROR_DOWN."""
    try:
        there = present.read_bytes()
    except OSError:
        there = b""
    if there and not _faults(there, repository):
        return there
    content = _fetch(str(repository["key_url"]))
    faults = _faults(content, repository)
    if faults:
        raise Refusal(
            "KEY_WRONG",
            "the key of %s from %s is not the one expected: %s. If the vendor or your mirror changed it, put the new key_sha256 and key_fingerprint "
            "under burnin_stack.repositories.%s" % (repository["name"], repository["key_url"], "; ".join(faults), repository["source"]),
        )
    return content


def _fetch(url: str) -> bytes:
    content, until = b"", time.monotonic() + FETCH_S
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:  # noqa: S310  (the scheme was checked when the stack was read)
            for piece in iter(lambda: _piece(answer), b""):
                content += piece
                if len(content) > MOST_BYTES or time.monotonic() > until:
                    break
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Refusal(
            "MIRROR_DOWN", "the key %s could not be fetched (%s): is the mirror up, and is key_url right?" % (url, error)
        ) from error
    if time.monotonic() > until:
        raise Refusal("MIRROR_DOWN", "the key %s took longer than %d s; expected a small file. Is the mirror well?" % (url, FETCH_S))
    if len(content) > MOST_BYTES:
        raise Refusal("KEY_WRONG", "%s is over %d bytes: that is no key" % (url, MOST_BYTES))
    return content


def _piece(answer: Any) -> bytes:
    """What has come, not waiting for a full piece: a server that trickles must meet the deadline."""
    piece: bytes = answer.read1(CHUNK) if hasattr(answer, "read1") else answer.read(CHUNK)
    return piece


def _faults(content: bytes, repository: Mapping[str, Any]) -> List[str]:
    wanted_sum, wanted_print = str(repository["key_sha256"]).lower(), str(repository["key_fingerprint"]).upper()
    found = []
    digest = hashlib.sha256(content).hexdigest()
    if wanted_sum and digest != wanted_sum:
        found.append("sha256 %s, expected %s" % (digest, wanted_sum))
    prints = fingerprints(content)
    if not prints:
        found.append("no OpenPGP public key in it")
    elif wanted_print and not wanted_sum and len(prints) > 1:
        # A fingerprint vouches for its own key alone, and apt trusts every key in the file.
        found.append("%d keys (%s), expected one, %s" % (len(prints), ", ".join(prints[:4]), wanted_print))
    elif wanted_print and wanted_print not in prints:
        found.append("fingerprint %s, expected %s" % (", ".join(prints), wanted_print))
    return found


def fingerprints(content: bytes) -> List[str]:
    """Of the primary keys in a key file, armored or binary; [] where there is none (RFC 4880 and 9580)."""
    blocks = [content]
    if content.lstrip().startswith(b"-----BEGIN"):
        armored = ARMOR.findall(content)
        if content.count(b"-----BEGIN") != len(armored):  # what we do not read here, apt might
            return []
        blocks = [_decoded(block) for block in armored]
    found = []
    for block in blocks:
        try:
            found += [_fingerprint(body) for tag, body in _packets(block) if tag == PUBLIC_KEY]
        except (IndexError, ValueError):
            return []
    return found


def _decoded(block: bytes) -> bytes:
    try:
        return base64.b64decode(b"".join(block.split()), validate=True)
    except binascii.Error:
        return b""


def _fingerprint(body: bytes) -> str:
    if body[0] == 4:
        return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper()  # noqa: S324  (the standard's own)
    return hashlib.sha256(bytes([0x95 + body[0]]) + len(body).to_bytes(4, "big") + body).hexdigest().upper()


def _packets(data: bytes) -> List[Any]:
    """(tag, body) of each packet. Raises IndexError or ValueError for what is none."""
    found, at = [], 0
    while at < len(data):
        head = data[at]
        if not head & 0x80:
            raise ValueError("no packet")
        if head & 0x40:
            tag, first = head & 0x3F, data[at + 1]
            if first < 192:
                size, skip = first, 2
            elif first < 224:
                size, skip = ((first - 192) << 8) + data[at + 2] + 192, 3
            elif first == 255:
                size, skip = int.from_bytes(data[at + 2 : at + 6], "big"), 6
            else:
                raise ValueError("partial lengths are for data, not for keys")
        else:
            tag, kind = (head >> 2) & 0x0F, head & 3
            if kind == 3:
                raise ValueError("a packet without a length")
            skip = 1 + (1 << kind)
            size = int.from_bytes(data[at + 1 : at + skip], "big")
        if at + skip + size > len(data):
            raise ValueError("cut off")
        found.append((tag, data[at + skip : at + skip + size]))
        at += skip + size
    return found
