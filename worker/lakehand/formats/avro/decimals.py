"""Decimals between Avro's big-endian two's complement and Arrow's little-endian words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from lakehand.formats.avro.cursors import Bytes, Cursors, Integers, Words

MAX_BYTES: Final = 64
"""Longer values than any precision needs are sign bytes at best."""


def to_words(cursors: Cursors, starts: Integers, ends: Integers, width: int) -> Words:
    """Return the values between starts and ends as ``width`` little-endian words each."""
    data = cursors.content.data
    lengths = ends - starts
    cursors.refuse(lengths < 1, "a decimal without bytes", starts)
    cursors.refuse(lengths > MAX_BYTES, f"a decimal of more than {MAX_BYTES} bytes", starts)
    words = np.empty((starts.size, width), dtype=np.uint64)
    if not starts.size:
        return words
    sign = -(data[starts] >> 7).astype(np.int64)
    shortest, longest = int(lengths.min()), int(lengths.max())
    for index in range(width):
        if longest <= 8 * index:
            words[:, index] = sign.view(np.uint64)
            continue
        word = cursors.content.words[ends - 8 * (index + 1)].byteswap().view(np.int64)
        if shortest < 8 * (index + 1):
            have = np.clip(lengths - 8 * index, 0, 8)
            # A shift by 64 is undefined, so words without bytes take the sign instead.
            drop = np.minimum(64 - 8 * have, 56)
            word = np.where(have == 0, sign, (word << drop) >> drop)
        words[:, index] = word.view(np.uint64)
    _refuse_lost_digits(cursors, starts, lengths, words, 8 * width)
    return words


def _refuse_lost_digits(
    cursors: Cursors, starts: Integers, lengths: Integers, words: Words, size: int
) -> None:
    """Bytes in front of the words may only repeat the sign."""
    data = cursors.content.data
    extra = lengths - size
    top = -(words[:, -1] >> np.uint64(63)).astype(np.int64) & 0xFF
    for index in range(max(0, int(extra.max()))):
        wrong = (index < extra) & (data[starts + index] != top)
        cursors.refuse(wrong, "a decimal has more digits than its type", starts)


def from_words(words: Words, size: int) -> Bytes:
    """Return big-endian values of ``size`` bytes each, as rows of a matrix."""
    big = words[:, ::-1].astype(">u8").view(np.uint8).reshape(words.shape[0], 8 * words.shape[1])
    if size <= big.shape[1]:
        return np.ascontiguousarray(big[:, big.shape[1] - size :])
    extended = np.empty((len(big), size), dtype=np.uint8)
    extended[:, : size - big.shape[1]] = np.where(big[:, :1] >= 0x80, 0xFF, 0)
    extended[:, size - big.shape[1] :] = big
    return extended


def minimal_lengths(words: Words) -> Integers:
    """Return how many bytes each value needs: what Java's ``BigInteger.toByteArray`` gives."""
    big = from_words(words, 8 * words.shape[1])
    sign = np.where(big[:, :1] >= 0x80, np.uint8(0xFF), np.uint8(0))
    # A leading byte can go if it repeats the sign and the next byte shows the same sign.
    same_sign_next = (big[:, 1:] >> 7) == (sign >> 7)
    removable = (big[:, :-1] == sign) & same_sign_next
    dropped = np.logical_and.accumulate(removable, axis=1).sum(axis=1, dtype=np.int64)
    return np.asarray(big.shape[1] - dropped)
