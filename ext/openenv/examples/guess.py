"""guess.py - an OpenEnv environment: a digit is to be guessed, with hints.

    python3 -m venv venv && venv/bin/pip install openenv-core
    venv/bin/python ext/openenv/examples/guess.py 8000
    grpo run ext/openenv/examples/guess.lua
"""

import random
import sys
from typing import Optional
from uuid import uuid4

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app


class Guess(Action):
    text: str


class Hint(Observation):
    hint: str


class Digits(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State(episode_id=str(uuid4()))
        self.secret = 0

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **kwargs) -> Hint:
        self.secret = random.Random(seed).randrange(1, 9)
        self._state = State(episode_id=episode_id or str(uuid4()))
        return Hint(hint="?")

    def step(self, action: Guess, timeout_s: Optional[float] = None, **kwargs) -> Hint:
        self._state.step_count += 1
        guess = int(action.text) if action.text.isdigit() else None
        right, over = guess == self.secret, self._state.step_count == 4
        hint = "=" if right else "!" if guess is None else "<" if self.secret < guess else ">"
        return Hint(hint=hint, done=right or over, reward=1.0 if right else 0.0)

    @property
    def state(self) -> State:
        return self._state


if __name__ == "__main__":
    app = create_fastapi_app(Digits, Guess, Hint, max_concurrent_envs=256)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
