"""The rules of cleaning apply to every message of a conversation."""

from dataclasses import replace

from tests.pipeline.objectives.word_tokenizer import run_of
from transbeam.configs.schema.cleaning import CleaningConfig, PersonalDataConfig
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.steps.clean_documents import cleaned


def test_messages_are_cleaned_one_by_one() -> None:
    run = run_of(DialogueConfig(), 64)
    rules = CleaningConfig(normalization="nfc", personal_data=PersonalDataConfig())
    run = replace(run, data=replace(run.data, cleaning=rules))
    messages = (("user", "Mail ann@example.org"), ("assistant", "cafe\u0301"))
    document = Document("unused", "a.jsonl", 0, messages=messages)
    found = cleaned(document, run)
    assert isinstance(found, Document)
    assert found.messages == (("user", "Mail <email>"), ("assistant", "caf\u00e9"))
    assert found.text == "Mail <email>\ncaf\u00e9"
