"""Dialogue: a decoder predicts the assistant's turns of conversations.

A chat template renders a conversation as one text. The spans of the assistant's turns
in it are found by rendering, never by searching for the words of a turn, which may
also stand in a question; the beginning of a turn, such as `Assistant:`, belongs to the
prompt, because a request ends with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives import causal
from transbeam.pipeline.objectives.base.labels import reasons_against, usable_rows
from transbeam.pipeline.objectives.base.special_tokens import needed
from transbeam.pipeline.objectives.base.target_records import make_target_records
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.records.token_rows import split_rows
from transbeam.pipeline.tokenizers.base.chat_template import ChatTemplateError
from transbeam.pipeline.tokenizers.base.interface import Tokenizer, TokenOffsets
from transbeam.pipeline.tokenizers.files.chat_format import (
    NO_CHAT_TEMPLATE,
    ChatFormat,
    Message,
)


@dataclass
class Conversation:
    """A conversation with its tokens.

    Attributes:
        messages: The messages that are used; the earliest ones may have been dropped.
        ids: The token ids, with begin and end token.
        is_target: For each id, whether it is predicted.
        is_cut: Whether messages were dropped.
        reason: The reason why the conversation cannot be used, or None.
    """

    messages: list[Message]
    ids: Sequence[int] = ()
    is_target: Sequence[bool] = ()
    is_cut: bool = False
    reason: str | None = None


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record, those of `causal`."""
    return causal.features(run)


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Packs conversations; the targets are the tokens of the assistant's turns."""
    config = run.objective
    assert isinstance(config, DialogueConfig)
    reasons = reasons_against(batch, ["messages"])
    rows = usable_rows(batch, reasons)
    messages = batch.take(rows).values("messages")
    conversations = [Conversation(_up_to_last_reply(each)) for each in messages]
    encode_conversations(conversations, tokenizer, run)
    for row, conversation in zip(rows, conversations, strict=True):
        reasons[row] = conversation.reason
    kept = [number for number, each in enumerate(conversations) if each.reason is None]
    used = [conversations[number] for number in kept]
    ids = np.array([i for each in used for i in each.ids], np.int32)
    stream = split_rows(ids, np.array([len(each.ids) for each in used], np.int64))
    is_target = np.array([t for each in used for t in each.is_target], np.bool_)
    if config.loss == "all":
        is_target[:] = True
    index = rows[kept]
    found = make_target_records(
        stream, is_target, (index, batch.keys[index]), reasons, tokenizer, run
    )
    cut = sum(each.is_cut for each in used)
    return replace(found, counts={**found.counts, "truncated_documents": cut})


def encode_conversations(
    conversations: Sequence[Conversation], tokenizer: Tokenizer, run: RunConfig
) -> None:
    """Tokenizes conversations, and drops the earliest turns of those that are too long.

    Args:
        conversations: The conversations, whose attributes are set.
        tokenizer: The tokenizer, with a chat format.
        run: The run's configuration, for the length of a record.

    Raises:
        ConfigError: The tokenizer has no chat template.
    """
    chat = chat_format(tokenizer)
    end = needed(tokenizer, run, "end")
    most = run.data.sequence_length
    for conversation in conversations:
        conversation.reason = _reason_against(conversation.messages, chat)
    open_ = [each for each in conversations if each.reason is None]
    while open_:
        rendered = []
        for conversation in open_:
            try:
                rendered.append(chat.render_turns(conversation.messages))
            except ChatTemplateError as error:
                conversation.reason = str(error)
        open_ = [each for each in open_ if each.reason is None]
        tokens = tokenizer.tokenize_with_offsets([each.text for each in rendered])
        longer = []
        for conversation, text, found in zip(open_, rendered, tokens, strict=True):
            _set_tokens(conversation, found, text.assistant_spans, tokenizer, end)
            if conversation.reason is None and len(conversation.ids) > most:
                longer.append(conversation)
        open_ = [each for each in longer if _drop_turn(each)]


def chat_format(tokenizer: Tokenizer) -> ChatFormat:
    """Returns the chat format of a tokenizer.

    Raises:
        ConfigError: The tokenizer has no chat template.
    """
    if tokenizer.chat_format is None:
        raise ConfigError(NO_CHAT_TEMPLATE)
    return tokenizer.chat_format


def _up_to_last_reply(messages: Sequence[Message]) -> list[Message]:
    """Drops the messages after the assistant's last one, which nothing answers."""
    replies = [n for n, each in enumerate(messages) if each["role"] == "assistant"]
    return list(messages[: replies[-1] + 1 if replies else None])


def _reason_against(messages: Sequence[Message], chat: ChatFormat) -> str | None:
    replies = [each for each in messages if each["role"] == "assistant"]
    if not replies:
        return "no turn of the assistant"
    if not all(each["content"].strip() for each in replies):
        return "an empty turn of the assistant"
    if found := chat.find_marker(messages):
        return f"a message has the special token {found[1]}"
    return None


def _set_tokens(
    conversation: Conversation,
    tokens: TokenOffsets,
    spans: Sequence[tuple[int, int]],
    tokenizer: Tokenizer,
    end: int,
) -> None:
    """Sets ids and targets from the tokens of a rendered text."""
    starts, ends = np.array(tokens.offsets, np.int64).reshape(-1, 2).T
    is_target = np.zeros(len(starts), np.bool_)
    for first, last in spans:
        across = (starts < first) & (ends > first) & (starts < ends)
        if across.any():
            conversation.reason = (
                "a token spans the end of a prompt and its answer: end the prompt of "
                "the chat template with a line end or a special token"
            )
            return
        is_target |= (starts >= first) & (starts < last)
    ids = list(tokens.ids)
    targets = is_target.tolist()
    special = tokenizer.special
    if special.begin not in (None, special.end):
        ids, targets = [special.begin, *ids], [False, *targets]
    if not ids or ids[-1] not in special.ends:
        ids, targets = [*ids, end], [*targets, True]
    conversation.ids, conversation.is_target = ids, targets


def _drop_turn(conversation: Conversation) -> bool:
    """Drops the earliest turn of the user with the replies to it.

    The system's first message stays. Returns whether a turn was dropped; if only one
    is left, the conversation gets a reason.
    """
    messages = conversation.messages
    kept = 1 if messages[0]["role"] == "system" else 0
    later = range(kept + 1, len(messages))
    turns = [number for number in later if messages[number]["role"] == "user"]
    if not turns:
        conversation.reason = "the last turns are longer than data.sequence_length"
        return False
    conversation.is_cut = True
    conversation.messages = [*messages[:kept], *messages[turns[0] :]]
    return True


def last_replies(
    conversations: Sequence[Sequence[Message]], tokenizer: Tokenizer, run: RunConfig
) -> tuple[list[bytes], list[bytes]]:
    """Returns the prompt of the assistant's last turn, and the turn, UTF-8.

    As in records, a prompt that is too long loses its earliest turns.

    Raises:
        ConfigError: The tokenizer has no chat template.
    """
    used = [Conversation(_up_to_last_reply(each)) for each in conversations]
    encode_conversations(used, tokenizer, run)
    chat = chat_format(tokenizer)
    prompts = [chat.render_prompt(each.messages[:-1]).encode() for each in used]
    return prompts, [each.messages[-1]["content"].encode() for each in used]
