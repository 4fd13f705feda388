"""Parity of exported models that reply in conversations with Keras."""

from transbeam.pipeline.objectives.dialogue import chat_format
from transbeam.serving.parity.answer import AnswerParityChecker


class DialogueParityChecker(AnswerParityChecker):
    """Checks replies to prompts as they are, and scores of replies with their ends."""

    @property
    def separator(self) -> str:
        return chat_format(self.trained.tokenizer).answer_frame()[0]

    def _after(self, target: str) -> list[int | None]:
        special = self.trained.tokenizer.special
        opening, closing = chat_format(self.trained.tokenizer).answer_frame()
        ids = self._tokens(opening + target + closing)
        is_ended = bool(closing) and ids[-1] in special.ends
        return [*ids, *([] if is_ended else [special.end])]
