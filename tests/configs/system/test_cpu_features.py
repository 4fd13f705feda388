"""Instructions that a virtual machine announces and does not have are left alone."""

import pytest

from transbeam.configs.system.cpu_features import (
    identify_processor,
    processor_environment,
)

CORE = """\
processor\t: {number}
model name\t: Intel(R) Xeon(R) Processor
cpuid level\t: {level}
flags\t\t: fpu sse2 avx512f {flags}

"""


@pytest.fixture
def cpuinfo(tmp_path):
    def write(level: object, flags: str):
        cores = (CORE.format(number=n, level=level, flags=flags) for n in range(2))
        path = tmp_path / "cpuinfo"
        path.write_text("".join(cores))
        return path

    return write


def test_tiles_without_a_layout_are_not_used(cpuinfo):
    found = processor_environment(cpuinfo(28, "amx_bf16 avx512_fp16 amx_tile"))
    assert found == {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"}


@pytest.mark.parametrize(
    ("level", "flags"),
    [
        (32, "amx_bf16 amx_tile"),
        (29, "amx_tile"),
        (28, "avx512_fp16"),
        ("?", "amx_tile"),
    ],
)
def test_others_are_left_as_they_are(cpuinfo, level, flags):
    assert processor_environment(cpuinfo(level, flags)) == {}


def test_a_processor_that_says_nothing(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text("Processor : ARMv8\n")
    assert processor_environment(path) == {}


def test_a_processor_is_known_by_its_model_and_instructions(cpuinfo):
    found = identify_processor(cpuinfo(32, "amx_bf16"))
    assert found["model name"] == "Intel(R) Xeon(R) Processor"
    assert found["flags"] == "fpu sse2 avx512f amx_bf16"
    assert "processor" not in found  # the number of the core
    assert identify_processor(cpuinfo(32, "")) != found
