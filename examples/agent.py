"""An agent for a run with a stage of kind "agents" (docs/agents.md): python3 examples/agent.py http://127.0.0.1:8090

It may look at its answer once more, and is paid for the right one.  It needs `pip install openai`."""
import json
import sys
import threading
import urllib.error
import urllib.request

from openai import OpenAI

run = sys.argv[1]
client = OpenAI(base_url=run, api_key="none")  # one for all sessions: making a client takes longer than a short session


def post(path, body):
    request = urllib.request.Request(run + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))


def play(session):
    own = client.with_options(base_url=session["base_url"])
    messages = session["messages"]
    for again in ("Are you sure? Give the number alone.", None):
        said = own.chat.completions.create(model=session["model"], messages=messages, max_tokens=12).choices[0].message
        messages = messages + [said, {"role": "user", "content": again}]
    return (said.content or "").strip() == session["row"]["answer"]


def work():
    while True:
        try:
            session = post("/sessions", {})
        except urllib.error.HTTPError as e:
            if e.code != 503:
                return  # the run is over
        except OSError:
            return
        else:
            post(f"/sessions/{session['id']}/reward", {"reward": play(session)})


workers = [threading.Thread(target=work) for _ in range(8)]
for worker in workers:
    worker.start()
