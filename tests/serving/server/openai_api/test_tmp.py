import json
def test_it(door):
    print(json.dumps(door.complete("returns a list", max_tokens=6, logprobs=2), indent=1))
    print(json.dumps(door.complete("returns a list", max_tokens=1, logprobs=1, echo=True), indent=1))
    ids = door.predict("writer","tokenize",text=["returns a list"])
    print(ids)
    print(door.complete(ids["token_ids"][0], max_tokens=6, echo=True))
    print(door.events("completions", {"model":"writer","prompt":"returns a list","max_tokens":6,"temperature":0,"stream_options":{"include_usage":True}}))
    print(door.post("chat/completions", {"model":"chatter","messages":[{"role":"user","content":"hi"}],"max_tokens":5,"temperature":0,"logprobs":True,"top_logprobs":1}))
    print(door.events("chat/completions", {"model":"chatter","messages":[{"role":"user","content":"hi"}],"max_tokens":5}))
    print(door.post("embeddings", {"model":"masked","input":["a list","b"]}))
    print(door.client.send("GET","/openai/v1/models"))
    assert 0
