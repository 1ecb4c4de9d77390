"""The official client against a server: python openai_client.py BASE_URL.  TAP on stdout."""
import asyncio
import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="secret", max_retries=0)
hi = [{"role": "user", "content": "hi"}]
tool = {"type": "function", "function": {"name": "add", "description": "adds", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}
count = failed = 0


def test(f):
    global count, failed
    count += 1
    try:
        f()
        print(f"ok {count} - {f.__name__}")
    except Exception as e:
        failed += 1
        print(f"not ok {count} - {f.__name__}\n# {type(e).__name__}: {e}")


def chat(**more):
    return client.chat.completions.create(model="model", messages=hi, **{"max_tokens": 6, "seed": 1, **more})


@test
def models_are_listed():
    assert [m.id for m in client.models.list()] == ["model"]
    assert client.models.retrieve("model").owned_by == "grpo"


@test
def a_chat_completion():
    r = chat()
    c = r.choices[0]
    assert c.message.role == "assistant" and isinstance(c.message.content, str)
    assert c.finish_reason in ("stop", "length") and r.usage.completion_tokens <= 6
    assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens


@test
def the_same_seed_says_the_same():
    assert chat().choices[0].message.content == chat().choices[0].message.content


@test
def max_completion_tokens():
    assert chat(max_tokens=None, max_completion_tokens=3).usage.completion_tokens <= 3


@test
def several_choices():
    r = chat(n=3, temperature=1.5)
    assert [c.index for c in r.choices] == [0, 1, 2]


@test
def log_probabilities():
    c = chat(logprobs=True, top_logprobs=3, temperature=0).choices[0]
    for t in c.logprobs.content:
        assert t.logprob <= 0 and len(t.top_logprobs) == 3 and isinstance(t.bytes, list)
        assert t.top_logprobs[0].logprob == t.logprob  # the likeliest was taken


@test
def a_schema_binds_the_answer():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}},
              "required": ["n", "ok"], "additionalProperties": False}
    r = chat(max_tokens=200, n=4, response_format={"type": "json_schema", "json_schema": {
        "name": "answer", "schema": schema, "strict": True}})
    for c in r.choices:
        value = json.loads(c.message.content)
        assert isinstance(value["n"], int) and isinstance(value["ok"], bool) and len(value) == 2
    c = chat(max_tokens=200, response_format={"type": "json_object"}).choices[0]
    assert c.message.content.startswith("{")


@test
def a_call_can_be_forced():
    other = {"type": "function", "function": {"name": "stop"}}
    for choice, names in (("required", ("add", "stop")),
                          ({"type": "function", "function": {"name": "add"}}, ("add",))):
        c = chat(max_tokens=200, tools=[tool, other], tool_choice=choice, seed=4).choices[0]
        call = c.message.tool_calls[0].function
        assert call.name in names and c.finish_reason == "tool_calls"
        if call.name == "add":
            assert isinstance(json.loads(call.arguments)["a"], int)


@test
def a_grammar_binds_a_text():
    r = client.completions.create(model="model", prompt="a", max_tokens=20, extra_body={"grammar": 'root ::= "yes" | "no"'})
    assert r.choices[0].text in ("yes", "no")


@test
def what_no_grammar_holds_to_is_refused_by_name():
    for more, param, words in (
            ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {
                "type": "string", "pattern": "a"}}}}, "response_format", "'pattern' is not supported"),
            ({"tool_choice": "required"}, "tool_choice", "there are no tools"),
            ({"extra_body": {"grammar": "root ::= root"}}, "grammar", "root")):
        try:
            chat(**more)
        except openai.BadRequestError as e:
            assert e.body["param"] == param and words in e.body["message"], e.body
        else:
            raise AssertionError(more)


@test
def token_ids_to_train_on():
    r = chat(logprobs=True, extra_body={"return_token_ids": True})
    c = r.choices[0]
    assert len(c.token_ids) == len(c.token_logprobs) == r.usage.completion_tokens
    assert c.token_logprobs == [t.logprob for t in c.logprobs.content]
    assert len(r.prompt_token_ids) == r.usage.prompt_tokens
    again = client.completions.create(model="model", prompt=r.prompt_token_ids, max_tokens=6, seed=1,
                                      extra_body={"return_token_ids": True})
    assert again.choices[0].token_ids == c.token_ids


@test
def a_stream():
    whole = chat().choices[0].message.content
    pieces = list(chat(stream=True, stream_options={"include_usage": True}))
    assert "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == whole
    assert pieces[0].choices[0].delta.role == "assistant"
    assert pieces[-1].usage.completion_tokens <= 6 and pieces[-2].choices[0].finish_reason


@test
def a_stream_of_the_beta_helper():
    # The helper refuses an answer that was cut off, so that a letter of the answer ends it.
    letter = next(c for c in reversed(chat(max_tokens=64).choices[0].message.content) if c.isascii() and c.isalpha())
    with client.chat.completions.stream(model="model", messages=hi, max_tokens=64, seed=1, stop=letter) as s:
        for _ in s:
            pass
        final = s.get_final_completion().choices[0]
        assert final.message.content == chat(max_tokens=64, stop=letter).choices[0].message.content


@test
def a_stream_that_is_left():
    s = chat(stream=True, max_tokens=64, n=8)
    next(iter(s))
    s.close()
    assert chat().choices[0].finish_reason


@test
def tools_and_their_results():
    r = chat(tools=[tool])
    assert r.choices[0].message.tool_calls is None or r.choices[0].finish_reason == "tool_calls"
    m = hi + [{"role": "assistant", "content": None, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "2"}]
    assert client.chat.completions.create(model="model", messages=m, tools=[tool], max_tokens=2).choices


@test
def text_completions():
    r = client.completions.create(model="model", prompt=["a", "b"], n=2, max_tokens=4, logprobs=2)
    assert [c.index for c in r.choices] == [0, 1, 2, 3]
    assert len(r.choices[0].logprobs.tokens) == len(r.choices[0].logprobs.token_logprobs)
    assert r.object == "text_completion"


@test
def a_text_stream():
    whole = client.completions.create(model="model", prompt="a", max_tokens=8, seed=3).choices[0].text
    s = client.completions.create(model="model", prompt="a", max_tokens=8, seed=3, stream=True)
    assert "".join(p.choices[0].text for p in s) == whole


@test
def a_stop_string():
    r = client.completions.create(model="model", prompt="a", max_tokens=64, seed=3, stop=["q", "z"])
    assert "q" not in r.choices[0].text and "z" not in r.choices[0].text


def raises(kind, f):
    try:
        f()
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__}")


@test
def errors_have_the_client_s_classes():
    e = raises(openai.BadRequestError, lambda: chat(temperature=-1))
    assert e.param == "temperature" and e.code == "invalid_value" and e.type == "invalid_request_error"
    raises(openai.NotFoundError, lambda: client.chat.completions.create(model="other", messages=hi))
    raises(openai.NotFoundError, lambda: client.embeddings.create(model="model", input="a"))
    other = openai.OpenAI(base_url=sys.argv[1], api_key="wrong", max_retries=0)
    raises(openai.AuthenticationError, lambda: other.models.list())


@test
def sixteen_at_once():
    a = openai.AsyncOpenAI(base_url=sys.argv[1], api_key="secret", max_retries=0)

    async def all_of_them():
        return await asyncio.gather(*[a.chat.completions.create(
            model="model", messages=hi, max_tokens=6 + i, seed=1) for i in range(16)])
    texts = [r.choices[0].message.content for r in asyncio.run(all_of_them())]
    assert len(texts) == 16 and all(t.startswith(texts[0][:1]) for t in texts)


print(f"1..{count}")
sys.exit(failed > 0)
