"""A shop whose callback does what the state says, and that counts the visits of a user."""

import ctypes
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models import BaseLlm, LlmRequest, LlmResponse

OPEN = socket.create_connection(("127.0.0.1", int(os.environ["SHOP_PORT"]))) if "SHOP_PORT" in os.environ else None


class Never(BaseLlm):
    """A model that must not be called."""

    model: str = "never"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Would cost money."""
        raise AssertionError("the model was called")
        yield


def welcome(callback_context: CallbackContext) -> None:
    """Counts the visits of a user, and does what the state says."""
    state = callback_context.state
    match state.get("do"):
        case "connect":
            socket.create_connection(("127.0.0.1", state["port"]), 1)
        case "send":
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"secret", ("127.0.0.1", state["port"]))
        case "run":
            subprocess.run([sys.executable, "-c", "pass"], check=True)
        case "shell":
            os.system("true")
        case "fork":
            os.fork()
        case "library":  # as grpc does: Python doesn't see it
            libc = ctypes.CDLL(None, use_errno=True)
            made = [libc.socket(family, socket.SOCK_STREAM, 0) for family in (socket.AF_INET, socket.AF_INET6)]
            state["said"] = [made, libc.connect(-1, None, 0), ctypes.get_errno(), libc.system(b"kill -9 $PPID")]
        case "open":
            OPEN.sendall(b"secret")
        case "exit":
            print("no more tea", file=sys.stderr, flush=True)
            os._exit(3)
        case "sleep":
            time.sleep(60)
    if "visit" not in state:
        state["user:visits"] = state["visit"] = state.get("user:visits", 0) + 1


def order(item: str) -> dict[str, str]:
    """Must not run."""
    raise AssertionError("the tool ran")


root_agent = LlmAgent(name="shop", model=Never(), tools=[order], before_agent_callback=welcome, output_key="said")
