"""The readers under some seconds of fuzzing; `make test-fuzz` gives them ten minutes."""

import numpy as np
import pytest

from tests.bad_input import pictures
from tests.fuzz import fuzz, mutation


def test_the_same_seed_spoils_alike():
    spoilt = [mutation.mutated(pictures.of(), np.random.RandomState(seed)) for seed in (1, 1, 2)]
    assert spoilt[0] == spoilt[1] != spoilt[2]


def test_mended_checksums_are_those_of_a_sound_file():
    sound = pictures.of()
    assert mutation.with_png_checksums(sound) == sound
    assert mutation.masked_crc32c(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.long
@pytest.mark.parametrize("reader", fuzz.READERS)
def test_a_reader_neither_crashes_nor_hangs_nor_takes_what_is_not_there(reader):
    counts, faults = fuzz.fuzz(reader, 0, 3)
    assert not faults and counts["refused"] > 0 and counts["read"] > 0, (counts, faults)
