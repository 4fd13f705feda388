"""Conversations as records: the assistant's turns are predicted, and whole."""

import json

import numpy as np
import pytest

from tests.pipeline.objectives.record_checks import (
    assert_same_when_shuffled,
    records_of,
)
from tests.pipeline.objectives.word_tokenizer import run_of
from tests.pipeline.tokenizers.sentencepiece_models import train
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.pipeline.documents.document import (
    Document,
    document_hash,
    document_key,
)
from transbeam.pipeline.objectives import dialogue
from transbeam.pipeline.objectives.dialogue import last_replies
from transbeam.pipeline.records.features import Records
from transbeam.pipeline.tokenizers.base.builtin_chat_templates import (
    find_chat_template,
)
from transbeam.pipeline.tokenizers.base.chat_template import ChatTemplateError
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.files.chat_format import with_chat_template
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    build_tokenizer,
    have_same_ids,
    save_tokenizer,
)
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)

END = "<|endoftext|>"
MARKERS = ("<|im_start|>", "<|im_end|>")


def bytes_model(*markers: str) -> ByteBPEModel:
    """A tokenizer of single bytes, and of markers."""
    return ByteBPEModel(pieces=(*ALPHABET, *markers, END), merges=())


def tokenizer_of(template: str, *markers: str):
    source = find_chat_template(template)
    return build_tokenizer(with_chat_template(bytes_model(*markers), source))


PLAIN = tokenizer_of("plain")
CHATML = tokenizer_of("chatml", *MARKERS)


def talk(*contents: str, system: str = "", offset: int = 0) -> Document:
    """A conversation of user and assistant in turn."""
    messages = [("system", system)] if system else []
    for number, content in enumerate(contents):
        messages.append((("user", "assistant")[number % 2], content))
    text = "\n".join(content for _, content in messages)
    return Document(text, "x", offset, messages=tuple(messages))


def make(documents, length=96, tokenizer=PLAIN, **keys) -> Records:
    run = run_of(DialogueConfig(**keys), length)
    return records_of(dialogue, run, documents, tokenizer)


def text_of(ids, tokenizer=PLAIN) -> str:
    written = "".join(tokenizer.pieces[i] for i in ids)
    return written.replace("Ġ", " ").replace("Ċ", "\n")


def conversations(records: Records, tokenizer=PLAIN) -> list[tuple[str, str]]:
    """Of each conversation: its text, and the targets with a bar after each stretch."""
    found, arrays = [], records.arrays
    for row, ids in enumerate(arrays["document_ids"]):
        for number in range(1, ids.max() + 1):
            where = ids == number
            weights = arrays["target_weights"][row][where] > 0
            targets = arrays["target_ids"][row][where]
            stretches = np.split(np.arange(len(weights)), _changes(weights))
            predicted = [
                text_of(targets[part], tokenizer)
                for part in stretches
                if weights[part].any()
            ]
            whole = text_of(arrays["token_ids"][row][where], tokenizer)
            found.append((whole, "|".join(predicted)))
    return found


def _changes(values: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.diff(values.astype(int))) + 1


def test_each_turn_of_the_assistant_is_predicted_with_its_end() -> None:
    records = make([talk("Hi", "Yo", "Bye", "So long")])
    assert conversations(records) == [
        (
            f"User: Hi\nAssistant: Yo{END}\nUser: Bye\nAssistant: So long{END}",
            f" Yo{END}| So long{END}",
        )
    ]


def test_the_role_header_belongs_to_the_prompt_and_markers_are_tokens() -> None:
    records = make([talk("Hi", "Yo", system="Be.")], tokenizer=CHATML)
    (found,) = conversations(records, CHATML)
    assert found[1] == f"Yo{MARKERS[1]}"
    assert found[0].startswith(f"{MARKERS[0]}system\nBe.{MARKERS[1]}\n")
    assert found[0].endswith(f"{MARKERS[0]}assistant\nYo{MARKERS[1]}")
    # The marker that ends a turn ends a generated text.
    assert CHATML.pieces.index(MARKERS[1]) in CHATML.special.ends


def test_the_loss_of_all_tokens() -> None:
    (found,) = conversations(make([talk("Hi", "Yo")], loss="all"))
    assert found[1] == found[0][1:]


def test_the_words_of_a_turn_in_a_question_are_no_targets() -> None:
    (found,) = conversations(make([talk("Assistant: Yo", "Yo")]))
    assert found[1] == f" Yo{END}"


def test_an_answer_whose_token_would_span_the_prompt_is_rejected() -> None:
    pieces = (*ALPHABET, ":!", END)
    model = ByteBPEModel(pieces=pieces, merges=((":", "!"),))
    template = (
        "{% for m in messages %}{{ m.role + ':' }}{% if m.role == 'assistant' %}"
        "{% generation %}{{ m.content + eos_token }}{% endgeneration %}"
        "{% else %}{{ m.content + '\n' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    tokenizer = build_tokenizer(with_chat_template(model, template))
    records = make([talk("Hi", "!Yo"), talk("Hi", "Yo", offset=1)], tokenizer=tokenizer)
    ((_, reason),) = records.rejected
    assert reason.startswith("a token spans the end of a prompt and its answer")
    assert len(conversations(records, tokenizer)) == 1


def test_messages_after_the_last_reply_are_left_out() -> None:
    (found,) = conversations(make([talk("Hi", "Yo", "Anyone?")]))
    assert found[0] == f"User: Hi\nAssistant: Yo{END}"


def test_long_conversations_lose_their_earliest_turns() -> None:
    """Not the system's message, and never a part of a turn."""
    document = talk("one", "1", "two", "2", "three", "3", system="Count.")
    whole = f"Count.\n\nUser: three\nAssistant: 3{END}"
    records = make([document], len(whole) - len(END) + 1)
    assert conversations(records) == [(whole, f" 3{END}")]
    assert records.counts["truncated_documents"] == 1
    (rejected,) = make([document], len(whole) - len(END)).rejected
    assert rejected == (0, "the last turns are longer than data.sequence_length")


def test_conversations_that_cannot_be_used_have_a_reason() -> None:
    documents = [
        talk("Hi"),
        talk("Hi", " "),
        talk(f"Hi{END}User: Bye", "Yo"),
        Document("a", "x", 3, messages=(("tool", "7"), ("assistant", "8"))),
        Document("a", "x", 4),
    ]
    reasons = dict(make(documents).rejected)
    assert reasons[0] == "no turn of the assistant"
    assert reasons[1] == "an empty turn of the assistant"
    assert reasons[2] == f"a message has the special token {END}"
    assert reasons[3].startswith("the chat template refuses the messages: expected")
    assert reasons[4] == "no messages"


@pytest.mark.parametrize("tokenizer", [PLAIN, CHATML], ids=["plain", "chatml"])
@pytest.mark.parametrize(
    ("roles", "found"),
    [
        ("assistant user assistant", "assistant first"),
        ("system assistant user assistant", "assistant after system"),
        ("user user assistant", "user after user"),
        ("user assistant assistant", "assistant after assistant"),
        ("user system assistant", "system after user"),
    ],
)
def test_roles_out_of_order_are_rejected(tokenizer, roles, found) -> None:
    messages = tuple((role, "Yo") for role in roles.split())
    documents = [Document("a", "x", 0, messages=messages), talk("Hi", "Yo", offset=1)]
    records = make(documents, tokenizer=tokenizer)
    ((_, reason),) = records.rejected
    assert "roles out of order" in reason
    assert reason.endswith(f"found {found}")
    assert len(conversations(records, tokenizer)) == 1


WITHOUT_BLOCKS = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def test_without_generation_blocks_turns_are_found_by_rendering() -> None:
    tokenizer = tokenizer_of(WITHOUT_BLOCKS)
    records = make([talk("Hi", "Yo", "Bye", "So")], tokenizer=tokenizer)
    (found,) = conversations(records, tokenizer)
    assert found[1] == f" Yo\n| So\n{END}"  # the end is added where there is none


LLAMA = (
    "{% for m in messages %}{% if m.role == 'user' %}"
    "{{ bos_token + '[INST] ' + m.content + ' [/INST]' }}{% else %}"
    "{% generation %}{{ ' ' + m.content + ' ' + eos_token }}{% endgeneration %}"
    "{% endif %}{% endfor %}"
)


def test_sentencepiece_reads_the_special_tokens_of_a_template() -> None:
    """Like the reference of Llama 2: turns are encoded one by one, and concatenated."""
    model = SentencePieceModel(
        proto=train(byte_fallback=True, vocab_size=330, model_type="bpe")
    )
    tokenizer = build_tokenizer(with_chat_template(model, LLAMA))
    begin, end = model.special.begin, model.special.end
    plain = model.build()
    turns = [("the banana", "and others"), ("this is that", "in the north")]
    expected, answers = [], []
    for question, answer in turns:
        asked = plain.tokenize([f"[INST] {question} [/INST]"]).to_list()[0]
        told = [*plain.tokenize([answer + " "]).to_list()[0], end]
        expected += [begin, *asked, *told]
        answers += told
    talks = [talk(*(text for turn in turns for text in turn))]
    records = make(talks, tokenizer=tokenizer)
    (ids,), (weights,) = (records.arrays[n] for n in ("token_ids", "target_weights"))
    assert ids[: len(expected)].tolist() == expected
    (targets,) = records.arrays["target_ids"]
    assert targets[weights > 0].tolist() == answers


def test_a_template_whose_prompts_do_not_begin_the_conversation_is_refused() -> None:
    source = WITHOUT_BLOCKS.replace("[assistant] ", "[assistant, think] ")
    with pytest.raises(ChatTemplateError, match="no generation block"):
        tokenizer_of(source)


def test_the_template_is_needed_and_its_markers_are_pieces() -> None:
    with pytest.raises(ConfigError, match="needs a chat template"):
        make([talk("Hi", "Yo")], tokenizer=build_tokenizer(bytes_model()))
    with pytest.raises(ConfigError, match=r"'<\|im_start\|>', which is no piece"):
        tokenizer_of("chatml")


def test_a_prompt_of_a_request_has_the_tokens_of_the_records() -> None:
    messages = [
        {"role": role, "content": content}
        for role, content in talk("Hi", "Yo", "Bye", "So").messages
    ]
    run = run_of(DialogueConfig(), 96)
    (prompt,), (reply,) = last_replies([messages], PLAIN, run)
    assert reply == b"So"
    ids = PLAIN.tokenize([prompt]).to_list()[0]
    (whole,) = make([talk("Hi", "Yo", "Bye", "So")]).arrays["token_ids"]
    assert whole[: len(ids)].tolist() == ids
    assert text_of(whole[len(ids) :]).startswith(f" So{END}")


def test_packed_conversations_do_not_depend_on_their_order() -> None:
    documents = [talk("Hi", "Yo" * (1 + i % 5), offset=i) for i in range(20)]
    unique = {document_key(document): document for document in documents}
    run = run_of(DialogueConfig(), 64)
    assert_same_when_shuffled(dialogue, run, list(unique.values()), PLAIN)


def test_messages_are_a_part_of_a_document_s_key() -> None:
    """And the keys of documents without messages are those of earlier versions."""
    one, other = talk("a", "b"), talk("a\nb")
    assert one.text == other.text
    assert document_key(one) != document_key(other)
    labelled = Document("a", "x", 0, label="b")
    old = json.dumps(["a", "", "", "b", [], [], [], []], ensure_ascii=False)
    assert document_key(labelled) == document_hash(old)


def test_a_template_changes_no_ids_of_other_texts(tmp_path) -> None:
    """So a training of dialogues may begin with the weights of a language model."""
    model = bytes_model()
    chatting = with_chat_template(model, find_chat_template("plain"))
    other = ByteBPEModel(pieces=(*ALPHABET, "ab", END), merges=(("a", "b"),))
    folders = [tmp_path / name for name in ("model", "chatting", "other")]
    for folder, each in zip(folders, (model, chatting, other), strict=True):
        save_tokenizer(folder, each)
    assert have_same_ids(*folders[:2])
    assert not have_same_ids(folders[1], folders[2])
