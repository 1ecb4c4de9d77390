"""The other side of experiments/agent.lua: an agent of OpenAI's Agents SDK with a calculator, on tasks of Reasoning Gym.

python3 agent.py rows 0 24000 >tasks.jsonl           the tasks of these numbers
python3 agent.py play http://127.0.0.1:8090          plays the sessions of a run
python3 agent.py measure http://127.0.0.1:8080/v1    plays tasks of stdin against grpo serve: the rewards of greedy answers and of sampled ones

pip install openai-agents reasoning-gym.  The loop and the calls are the SDK's; the tasks and their rewards are the gym's."""
import asyncio
import json
import sys
import zlib

import openai
import reasoning_gym
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, exceptions, function_tool, set_tracing_disabled
from reasoning_gym.arithmetic.leg_counting import ANIMALS

SIDE_BY_SIDE = 16
tasks = reasoning_gym.create_dataset("leg_counting", min_animals=2, max_animals=3, size=10**6, seed=41)
client = openai.AsyncOpenAI(base_url="http://127.0.0.1", api_key="none", timeout=600)  # one, because making it takes 0.1 s
set_tracing_disabled(True)


@function_tool(failure_error_function=lambda _, error: "error")
def calculate(expression: str) -> int:
    """Works out a sum of products of two whole numbers."""
    return sum(int(a) * int(b) for a, b in (product.split("*") for product in expression.split("+"))) % 10**9


async def play(url, name, task, **settings):
    model = OpenAIChatCompletionsModel(model=name, openai_client=client.with_options(base_url=url))
    agent = Agent(name="counter", instructions="Use the calculator.", tools=[calculate], model=model,
                  model_settings=ModelSettings(**settings))
    try:
        said = (await Runner.run(agent, task["question"], max_turns=3)).final_output
    except (exceptions.AgentsException, openai.BadRequestError):
        said = None  # it wants more turns or tokens than it has, or a tool that is not there
    return tasks.score_answer(said, task)


async def work(url):
    run = client.with_options(base_url=url, max_retries=0)
    while True:
        try:
            session = await run.post("/sessions", body={}, cast_to=object)
        except openai.InternalServerError:
            continue  # there is no session now
        except (openai.APIStatusError, openai.APIConnectionError):
            return  # the run is over
        reward = await play(session["base_url"], session["model"], session["row"])
        await run.post(f"/sessions/{session['id']}/reward", body={"reward": reward}, cast_to=object)


async def measure(url):
    name, places = (await client.with_options(base_url=url).models.list()).data[0].id, asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(line):
        task = json.loads(line)
        async with places:
            greedy = await play(url, name, task, temperature=0)
            return greedy, await play(url, name, task, temperature=1, extra_args={"seed": task["metadata"]["source_index"]})
    for greedy, sampled in await asyncio.gather(*map(one, sys.stdin)):
        print(greedy, sampled)


def rows(first, last):
    """One in ten tasks is held out, by a hash of its question; `calculation` is what a demonstration shows."""
    for task in map(tasks.__getitem__, range(int(first), int(last))):
        task["held_out"] = zlib.crc32(task["question"].encode()) % 10 == 0
        task["calculation"] = "+".join(f"{n}*{ANIMALS[animal]}" for animal, n in task["metadata"]["animals"].items())
        print(json.dumps(task))


async def main(what, *arguments):
    if what == "rows":
        rows(*arguments)
    elif what == "play":
        await asyncio.gather(*(work(*arguments) for _ in range(SIDE_BY_SIDE)))
    else:
        await measure(*arguments)


asyncio.run(main(*sys.argv[1:]))
