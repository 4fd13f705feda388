"""The Rust library's own trainers, as its documentation shows them.

    python rust_trainer.py TEXT OUTPUT KIND PIECES

KIND is `wordpiece` or `byte_bpe`. Reads the text, learns and saves; the number of its
threads is in RAYON_NUM_THREADS. A pair of pieces must be there twice, as in ours.
"""

import sys

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers


def main(text: str, output: str, kind: str, pieces: str) -> None:
    if kind == "wordpiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(
            vocab_size=int(pieces),
            min_frequency=2,
            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
            show_progress=False,
        )
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=int(pieces),
            min_frequency=2,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    tokenizer.train([text], trainer)
    tokenizer.save(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
