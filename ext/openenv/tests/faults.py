"""faults.py PORT : a server of environments in which everything goes wrong, by the path of the address.  For tools/check-openenv."""

import asyncio
import json
import sys

from websockets.asyncio.server import serve
from websockets.datastructures import Headers
from websockets.http11 import Response

connections = {}


def observation(hint, **more):
    return json.dumps({"type": "observation", "data": {"observation": {"hint": hint}, "reward": None, "done": False, **more}})


def before(connection, request):
    kind = request.path.split("/")[1]
    if kind == "refuse":
        return connection.respond(403, "no\n")
    if kind == "redirect":
        return Response(302, "Found", Headers([("Location", "/once/ws"), ("Content-Length", "0")]))


async def serve_one(socket):
    kind = socket.request.path.split("/")[1]
    connections[kind] = number = connections.get(kind, 0) + 1
    async for text in socket:
        step = json.loads(text)["type"] == "step"
        if kind == "full":
            await socket.send(json.dumps({"type": "error", "data": {"message": "all are taken", "code": "CAPACITY_REACHED"}}))
        elif kind == "once" and number == 1 or kind == "close" or kind == "dies" and step:
            return await socket.close()
        elif not step:
            await socket.send(observation("?"))
        elif kind == "hang":
            await asyncio.sleep(60)
        elif kind == "huge":
            await socket.send("x" * (2 << 20))
        elif kind == "flood":
            for _ in range(1000):
                await socket.send(observation("<"))
        elif kind == "garbage":
            await socket.send("well, let me think")
        elif kind == "binary":
            await socket.send(bytes(range(256)))
        else:
            await socket.send(observation("=", done=True, reward=1.0))


async def main():
    async with serve(serve_one, "127.0.0.1", int(sys.argv[1]), process_request=before, max_size=None):
        await asyncio.get_running_loop().create_future()


asyncio.run(main())
