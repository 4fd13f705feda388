"""`transbeam data` without Beam: what is left is the work.

    python -m bench.without_beam data CONFIG --run DIR --workers=N

Reading the configuration, planning, the manifest and the card are the command's own.
What it gives to Beam is done here by calling the functions that
`transbeam.pipeline.beam.job` hands to it, in threads, one step after the other. Only
for a tokenizer that is given, and without a search for near duplicates.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.pipeline import stage
from transbeam.pipeline.__main__ import main
from transbeam.pipeline.sources.work_units import Unit


def run(invocation: Invocation, folder: Path, units: list[Unit]) -> None:
    """Stands in for `transbeam.pipeline.stage._run`."""
    from transbeam.pipeline.accounting.document_accounting import check_prepared
    from transbeam.pipeline.steps.clean_documents import prepare_unit
    from transbeam.pipeline.steps.deduplicate_documents import drop_duplicates
    from transbeam.pipeline.tokenizers.training.train_tokenizer import make_tokenizer

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
        from transbeam.pipeline.beam.tokenizer_cache import shared_tokenizer
        from transbeam.pipeline.steps.build_records import build_part

        tokenizer = shared_tokenizer(folder / "tokenizer")
        list(pool.map(lambda p: build_part(p, config, folder, tokenizer), parts))


if __name__ == "__main__":
    stage._run = run
    raise SystemExit(main())
