from tests.harness.parts import PARTS, ROOT


def test_the_paths_of_all_parts_exist():
    paths = {path for part in PARTS.values() for path in part.paths}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
