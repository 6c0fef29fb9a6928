"""Slices whose files are broken in every way: a typed error or rows, never anything else."""

import fuzz_targets_read
from fuzzing import assert_survives


def test_a_slice_survives_any_base_file(tmp_path):
    assert_survives("fuzz_targets_read:read_base", [fuzz_targets_read.base_file()], tmp_path)


def test_a_slice_survives_any_log_file(tmp_path):
    assert_survives("fuzz_targets_read:read_log", fuzz_targets_read.log_files(), tmp_path)
