"""Asks LiteRT-LM, in an interpreter of its own that has `litert-lm-api`.

    python litert_lm_client.py model.litertlm < questions.json

The questions are a list of objects with `prompt`, `max_new_tokens` and `written`, ids.
The answers say how the client reads the prompt, what it writes, and how it reads what
was `written`.
"""

import json
import sys

import litert_lm
from litert_lm.interfaces import Backend, SamplerConfig

GREEDY = SamplerConfig(top_k=1, top_p=1.0, temperature=1.0, seed=0)


def main(bundle: str) -> None:
    litert_lm.set_min_log_severity(litert_lm.LogSeverity.ERROR)
    answers = []
    with litert_lm.Engine(bundle, backend=Backend.CPU()) as engine:
        for question in json.load(sys.stdin):
            with engine.create_session(
                apply_prompt_template=False,
                sampler_config=GREEDY,
                max_output_tokens=question["max_new_tokens"],
            ) as session:
                session.run_prefill([question["prompt"]])
                parts = [answer.texts for answer in session.run_decode_async()]
            with engine.create_conversation(
                sampler_config=GREEDY, max_output_tokens=question["max_new_tokens"]
            ) as conversation:
                message = conversation.send_message(question["prompt"])
            answers.append(
                {
                    "token_ids": engine.tokenize(question["prompt"]),
                    "text": "".join(part for texts in parts for part in texts[:1]),
                    "message": message,
                    "written": engine.detokenize(question["written"]),
                }
            )
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
