"""Damaged files: changes of some bytes, of what a packed file holds, of JSON's data, or of an ONNX model's fields."""

import contextlib
import copy
import gzip
import io
import json
import re
import zipfile
from random import Random
from typing import Any

_WORDS = (
    b"0 -1 1e400 1e-400 nan Infinity 2147483648 18446744073709551616 null true [] {} () ' ( ) [ { } ] ; # // \\ &b; .."
)
_TOKENS = (
    *(*_WORDS.split(b" "), b"9" * 400, b"[" * 3000, b"\n", b" ", b"\r", b"\0", b"\x1b[2J", b'"', b'""', b"/dev/zero"),
    *(b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\xd9\xa3", b"<!DOCTYPE a [<!ENTITY b 'c'>]>"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 0.5, 1e308, 2**31, 2**64, 10**400, float("nan"), float("inf"), "", "0", "x" * 300),
    *("\x1b[2J", "../../x", "\ud800", [], {}, [[]], [1, 2, 3], {"": None}),
)
_INTEGERS = (0, -1, 1, 2, 3, 7, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1)


def mutated(content: bytes, random: Random) -> bytes:
    """The content with some damage, which checksums of its container do not give away most of the time."""
    if random.random() < 0.7:
        if content[:4] == b"PK\3\4":
            return _zipped(content, random)
        if content[:2] == b"\x1f\x8b":
            return gzip.compress(mutated(gzip.decompress(content), random), 1)
        with contextlib.suppress(ValueError):  # neither JSON nor text
            return _changed_json(content, random)
    return _changed_bytes(content, random)


def _changed_bytes(content: bytes, random: Random) -> bytes:
    kept = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        start = random.randrange(len(kept) + 1)
        stop = start + random.choice((0, 1, 1, 4, 30, len(kept)))
        words = [*re.finditer(rb"[A-Za-z_]+|\d+(\.\d+)?", kept)]
        piece = random.choice((b"", random.randbytes(2), bytes(kept[start:stop]) * 2, random.choice(_TOKENS)))
        if words and random.random() < 0.5:
            word = random.choice(words)
            start, stop = word.span()
            piece = random.choice((random.choice(words)[0], random.choice(_TOKENS)))
        elif random.random() < 0.2 and start < len(kept):
            stop, piece = start + 1, bytes([kept[start] ^ 1 << random.randrange(8)])
        kept[start:stop] = piece
    return bytes(kept)


def _zipped(content: bytes, random: Random) -> bytes:
    """An archive with a member that is changed, missing, or there twice."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        chosen = random.choice(old.infolist()).filename
        for member in old.infolist():
            data, changed = old.read(member), member.filename == chosen
            if changed and random.random() < 0.1:
                continue
            # Behind the header of an array stands its data, which may be JSON.
            head = 128 if data[:6] == b"\x93NUMPY" and random.random() < 0.8 else 0
            if changed and head and data[head : head + 1] == b"{":
                text = mutated(data[head:], random)
                data, head = _header(len(text)) + text, 0
            elif changed and head and len(data) > head + 4:
                at = random.randrange(head, len(data) - 3)
                data = data[:at] + (random.choice(_INTEGERS) % (1 << 32)).to_bytes(4, "little") + data[at + 4 :]
            elif changed:
                data = mutated(data, random)
            new.writestr(member.filename, data)
    return made.getvalue()


def _header(size: int) -> bytes:
    """The header of an array of bytes."""
    fields = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({size},), }}"
    return b"\x93NUMPY\x01\0v\0" + fields.ljust(117).encode() + b"\n"


def _changed_json(content: bytes, random: Random) -> bytes:
    """JSON with values that are others, missing, or elsewhere, too."""
    root = [json.loads(content)]
    for _ in range(random.choice((1, 1, 2, 5))):
        places = [(root, 0)]
        for node, key in places:
            value = node[key]  # type: ignore[index]
            inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            places += [(value, key) for key, _ in inner]
        (node, key), (other, place) = random.choice(places), random.choice(places)
        if random.random() < 0.2 and node is not root:
            del node[key]
        elif random.random() < 0.2:
            node[key] = json.loads(json.dumps(other[place]))
        else:
            node[key] = copy.deepcopy(random.choice(_VALUES))
    return json.dumps(root[0]).encode()


def mutated_model(content: bytes, random: Random) -> bytes:
    """An ONNX model with fields that are others, missing, or there twice."""
    import onnx  # noqa: PLC0415  # of an extra

    if random.random() < 0.2:
        return _changed_bytes(content, random)
    model = onnx.load_from_string(content)
    for _ in range(random.choice((1, 1, 2, 5))):
        places, messages = [], [model]
        for message in messages:
            for field, value in message.ListFields():
                places.append((message, field, value))
                if field.message_type:
                    messages += value if field.is_repeated else [value]
        if not places:  # nothing is left
            break
        message, field, value = random.choice(places)
        kinds = {
            int: random.choice(_INTEGERS) % (1 << 31),
            str: random.choice(("", "x", "Conv", "/", "\x1b")),
            float: 1e38,
        }
        if field.enum_type is None and not field.is_repeated and type(value) in kinds and random.random() < 0.8:
            setattr(message, field.name, kinds[type(value)])
        elif field.is_repeated and random.random() < 0.8:
            at = random.randrange(len(value))
            if type(value[at]) in kinds and random.random() < 0.6:
                value[at] = kinds[type(value[at])]
            elif random.random() < 0.5:
                del value[at]
            elif field.message_type:
                value.add().CopyFrom(value[at])
            else:
                value.append(value[at])
        else:
            message.ClearField(field.name)
    return model.SerializeToString()
