import pytest
from tokenizers import pre_tokenizers

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import (
    ALPHABET,
    check_byte_bpe,
    from_alphabet,
    to_alphabet,
)


def test_the_alphabet_is_that_of_the_rust_library():
    assert sorted(ALPHABET) == sorted(pre_tokenizers.ByteLevel.alphabet())
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    text = "".join(map(chr, [*range(0x300), 0x6F22, 0x1F600, 0x10FFFF]))
    assert splitter.pre_tokenize_str(text)[0][0] == to_alphabet(text.encode())


def test_the_alphabet_and_back():
    everything = bytes(range(256))
    assert from_alphabet(to_alphabet(everything)) == everything
    assert not any(character.isspace() for character in ALPHABET)


@pytest.mark.parametrize(
    ("pieces", "merges", "special", "message"),
    [
        ([*ALPHABET, "ab", "ab"], [], [], "piece 256, 'ab', is there 2 times"),
        ([*ALPHABET, ""], [], [], "piece 256, '', is empty"),
        ([*ALPHABET, "a b"], [], [], "'a b', has a character outside the alphabet"),
        (ALPHABET[1:], [], [], "1 of the 256 single bytes have no piece, such as 'Ā'"),
        (ALPHABET, [], ["<s>"], "special piece '<s>' is missing among the 256"),
        (ALPHABET, [("a", "b")], [], "merge 0, 'a' with 'b', needs the piece 'ab'"),
        ([*ALPHABET, "xyz"], [("x", "yz")], [], "needs the piece 'yz'"),
        ([*ALPHABET, "ab"], [("a", "b")], ["ab"], "'ab' can also be made of the bytes"),
        (ALPHABET, [], ["!"], "special piece '!' can also be made of the bytes"),
    ],
)
def test_what_cannot_be_used_is_refused(pieces, merges, special, message):
    with pytest.raises(ArtifactError) as error:
        check_byte_bpe(pieces, merges, special, where="here")
    assert str(error.value).startswith("here: ")
    assert message in str(error.value)


def test_special_pieces_may_have_any_characters():
    check_byte_bpe([*ALPHABET, "<a b>"], [], ["<a b>"], where="here")
