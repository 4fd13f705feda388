"""Recall of near duplicates: `python -m bench.near_duplicates`.

Locality-sensitive hashing against every pair's true similarity, on the docstrings of
TensorFlow, which repeat each other a great deal, and on pairs made to be of a certain
similarity.
"""

import math
import time

import numpy as np

from transbeam.configs.schema.data import NearDuplicatesConfig
from transbeam.configs.schema.sources import PythonDocsSourceConfig
from transbeam.pipeline.deduplication import duplicate_clusters, lsh, minhash
from transbeam.pipeline.documents.document import Document, Span, document_hash
from transbeam.pipeline.sources.readers import python_docs

CONFIG = NearDuplicatesConfig()
VALIDATION_FRACTION = 0.05


def main() -> None:
    texts = docstrings("tensorflow", 12_000)
    print(against_brute_force(texts))
    print()
    print(along_the_curve(trials=2000))


def brute_force(
    texts: list[str], config: NearDuplicatesConfig
) -> tuple[np.ndarray, np.ndarray]:
    """The similarity of every pair of documents with a shingle in common.

    Returns:
        int64 `(P, 2)`, the smaller index first, and float64 `(P,)`, the true Jaccard
        similarity of their sets of shingles.
    """
    found = minhash.shingles(texts, config.shingle_words)
    owners = np.repeat(np.arange(len(texts)), found.counts)
    shingle = np.unique(found.hashes, return_inverse=True)[1]
    owners, shingle = np.unique(np.stack([owners, shingle]), axis=1)
    sizes = np.bincount(owners, minlength=len(texts))
    by_shingle = np.argsort(shingle, kind="stable")
    holders, lengths = owners[by_shingle], np.bincount(shingle)
    begins = np.cumsum(lengths) - lengths
    pairs, similarities = [], []
    for document, shingles in enumerate(np.split(shingle, np.cumsum(sizes)[:-1])):
        others = np.concatenate(
            [holders[begins[s] : begins[s] + lengths[s]] for s in shingles]
        )
        common = np.bincount(others, minlength=len(texts))[document + 1 :]
        other = np.flatnonzero(common) + document + 1
        common = common[other - document - 1]
        pairs.append(np.stack([np.full_like(other, document), other], axis=1))
        similarities.append(common / (sizes[document] + sizes[other] - common))
    return np.concatenate(pairs), np.concatenate(similarities)


def linked_pairs(signatures: np.ndarray, config: NearDuplicatesConfig) -> np.ndarray:
    """The pairs that meet in any band and are similar, int64 `(P, 2)`, each once."""
    bands = lsh.choose_bands(config.similarity, config.num_hashes)
    pairs = [
        lsh.similar_pairs(row, signatures.__getitem__, config.similarity)
        for row in lsh.buckets(signatures, bands)
    ]
    return np.unique(np.concatenate(pairs), axis=0)


def against_brute_force(texts: list[str]) -> str:
    """A table of what is found and missed among real documents."""
    keys = np.array([document_hash(text) for text in texts], np.uint64)
    held_out = keys < VALIDATION_FRACTION * 2.0**64
    first = duplicate_clusters.distinct(keys, held_out)
    minhash.signatures(texts[:1], CONFIG)  # makes its tables
    began = time.process_time()
    signatures = minhash.signatures(texts, CONFIG)[first]
    signing = time.process_time() - began
    began = time.process_time()
    pairs = linked_pairs(signatures, CONFIG)
    linking = time.process_time() - began

    count = len(first)
    all_pairs, similarity = brute_force([texts[i] for i in first], CONFIG)
    true_pairs = all_pairs[similarity >= CONFIG.similarity]
    codes, true_codes = (p[:, 0] * count + p[:, 1] for p in (pairs, true_pairs))
    near_codes = all_pairs[similarity >= CONFIG.similarity - 0.1] @ [count, 1]
    groups = duplicate_clusters.clusters(pairs, count)
    true_groups = duplicate_clusters.clusters(true_pairs, count)
    dropped, to_drop = (g != np.arange(count) for g in (groups, true_groups))
    missed = similarity[similarity >= CONFIG.similarity][~np.isin(true_codes, codes)]
    together = groups[true_pairs[:, 0]] == groups[true_pairs[:, 1]]

    validation = held_out[first]
    kept = ~dropped
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    rows = [
        ("documents", f"{len(texts):,} ({megabytes:.1f} MB)"),
        ("distinct texts", f"{count:,}"),
        ("signatures, one core", f"{megabytes / signing:.1f} MB/s"),
        ("all bands, one core", f"{count / linking:,.0f} documents/s"),
        (f"pairs of similarity >= {CONFIG.similarity}", f"{len(true_pairs):,}"),
        ("... linked", _share(np.isin(true_codes, codes))),
        ("... in one group", _share(together)),
        ("most similar pair that is missed", f"{missed.max(initial=0):.3f}"),
        ("linked pairs", f"{len(pairs):,}"),
        ("... of at least this similarity", _share(np.isin(codes, true_codes))),
        ("... at most 0.1 less", _share(np.isin(codes, near_codes))),
        ("to drop by brute force", f"{to_drop.sum():,}"),
        ("... dropped", _share(dropped[to_drop])),
        ("dropped", f"{dropped.sum():,}"),
        ("... rightly", _share(to_drop[dropped])),
        ("validation documents", f"{validation.sum():,}"),
        (
            "... with a near duplicate in training",
            f"{_direct(true_pairs, validation, ~validation):,} by brute force, "
            f"{_leaked(groups, validation):,} by groups",
        ),
        (
            "... after dropping",
            f"{_direct(true_pairs, validation & kept, ~validation & kept):,} by brute "
            f"force, {_found_again(signatures[kept], validation[kept]):,} by groups",
        ),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])


def _share(among: np.ndarray) -> str:
    return f"{np.count_nonzero(among):,} ({100 * np.mean(among):.1f}%)"


def _direct(pairs: np.ndarray, evaluation: np.ndarray, training: np.ndarray) -> int:
    """Counts evaluation documents that are in a pair with a training document."""
    left, right = pairs.T
    leaks = [left[evaluation[left] & training[right]]]
    leaks.append(right[evaluation[right] & training[left]])
    return len(np.unique(np.concatenate(leaks)))


def _found_again(signatures: np.ndarray, validation: np.ndarray) -> int:
    groups = duplicate_clusters.clusters(
        linked_pairs(signatures, CONFIG), len(signatures)
    )
    return _leaked(groups, validation)


def _leaked(groups: np.ndarray, validation: np.ndarray) -> int:
    return int(duplicate_clusters.leaked(groups, ~validation, validation).sum())


def along_the_curve(trials: int) -> str:
    """A table of how many pairs of a known similarity meet and are linked."""
    bands = lsh.choose_bands(CONFIG.similarity, CONFIG.num_hashes)
    lines = [
        f"{bands.count} bands of {bands.rows} values, {trials:,} pairs each",
        "",
        "| similarity | meet | 1-(1-s^r)^b | linked | of those, expected |",
        "|---|---|---|---|---|",
    ]
    for wanted in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95):
        texts, similarity = pairs_of_similarity(wanted, trials, CONFIG.shingle_words)
        signatures = minhash.signatures(texts, CONFIG)
        cut = lsh.buckets(signatures, bands)
        meet = (cut[:, ::2] == cut[:, 1::2]).any(axis=0)
        equal = np.mean(signatures[::2] == signatures[1::2], axis=1)
        linked = meet & (equal >= CONFIG.similarity)
        curve = bands.meet(np.array(similarity))
        alike = _at_least(CONFIG.similarity, CONFIG.num_hashes, similarity)
        lines.append(
            f"| {similarity:.3f} | {meet.mean():.3f} | {curve:.3f} "
            f"| {linked.mean():.3f} | {alike:.3f} |"
        )
    return "\n".join(lines)


def pairs_of_similarity(
    wanted: float, trials: int, shingle_words: int, size: int = 200
) -> tuple[list[str], float]:
    """Texts 2i and 2i+1 of `size` shingles each, the first words of which are common.

    Returns:
        The texts, and the similarity of each pair, as near to `wanted` as can be.
    """
    common = round(2 * size * wanted / (1 + wanted))
    words = size + shingle_words - 1
    same = common + shingle_words - 1
    texts = []
    for trial in range(trials):
        start = [f"{trial}x{i}" for i in range(same)]
        for side in "ab":
            end = [f"{trial}{side}{i}" for i in range(words - same)]
            texts.append(" ".join(start + end))
    return texts, common / (2 * size - common)


def _at_least(share: float, draws: int, probability: float) -> float:
    """The probability that at least such a share of the draws succeeds."""
    return sum(
        math.comb(draws, k) * probability**k * (1 - probability) ** (draws - k)
        for k in range(math.ceil(share * draws), draws + 1)
    )


def docstrings(package: str, count: int) -> list[str]:
    """The first docstrings of a package, file by file."""
    source = PythonDocsSourceConfig(packages=(package,))
    texts = []
    for file in sorted(python_docs.list_files(source), key=lambda file: file.name):
        documents = python_docs.read(Span(file, 0, file.size), source)
        texts += [d.text for d in documents if isinstance(d, Document)]
        if len(texts) >= count:
            break
    return texts[:count]


if __name__ == "__main__":
    main()
