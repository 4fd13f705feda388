"""`transbeam data` without Beam: what is left is the work.

    python -m bench.without_beam data CONFIG --run DIR --workers=N

Reading the configuration, planning, the manifest and the card are the command's own.
What it gives to Beam is done here by calling the functions that `pipeline.job` hands
to it, in threads, one step after the other. Only for a tokenizer that is given, and
without a search for near duplicates.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from configs.command import Invocation
from configs.quiet import quiet_import
from pipeline import stage
from pipeline.__main__ import main
from pipeline.sources import Unit


def run(invocation: Invocation, folder: Path, units: list[Unit]) -> None:
    """Stands in for `pipeline.stage._run`."""
    from pipeline.accounts import check_prepared
    from pipeline.deduplication.steps import drop_duplicates
    from pipeline.prepare import prepare_unit
    from pipeline.tokenizers.making import make_tokenizer

    config, folder = invocation.config, folder.absolute()
    for name in ("state", "documents"):
        (folder / name).mkdir()
    with ThreadPoolExecutor(invocation.workers) as pool:
        prepared = pool.map(lambda unit: prepare_unit(unit, config, folder), units)
        parts = [part for of_unit in prepared for part in of_unit]
        check_prepared(config, folder)
        drop_duplicates(config, folder)
        make_tokenizer(folder / "tokenizer", {}, config.tokenizer)
        quiet_import("tensorflow", "tensorflow_text")
        from pipeline.build import build_part
        from pipeline.tokenizers.sharing import shared_tokenizer

        tokenizer = shared_tokenizer(folder / "tokenizer")
        list(pool.map(lambda p: build_part(p, config, folder, tokenizer), parts))


if __name__ == "__main__":
    stage._run = run
    raise SystemExit(main())
