"""The server over HTTP for tests/conformance.py: as users get it, or with what the conformance suite asks a server to have.

    python tests/conformance_server.py product    prints its URL, and serves until standard input closes
    python tests/conformance_server.py fixture    the same server, with the suite's tools, resources and prompts besides

Both come from the factory of the product, with its middleware and settings. Names and texts of the fixtures are the suite's.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import threading
import warnings
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from cudagraph_skill_server import app, http_server
from mcp.server.mcpserver import Context  # noqa: TC002 - the SDK reads the annotation
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from mcp.server import MCPServer

IMAGE = (  # a PNG of one pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="  # a WAV without samples


def text(said: str) -> TextContent:
    """Return a block of text."""
    return TextContent(type="text", text=said)


def image() -> ImageContent:
    """Return a picture."""
    return ImageContent(type="image", data=IMAGE, mime_type="image/png")


def embedded(uri: str, said: str, kind: str = "text/plain") -> EmbeddedResource:
    """Return a resource within an answer."""
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=kind, text=said))


# Tools that answer ------------------------------------------------------------------------------------------------------


def test_simple_text() -> str:
    """Answer with text."""
    return "This is a simple text response for testing."


def test_image_content() -> list[ImageContent]:
    """Answer with a picture."""
    return [image()]


def test_audio_content() -> list[AudioContent]:
    """Answer with sound."""
    return [AudioContent(type="audio", data=SOUND, mime_type="audio/wav")]


def test_embedded_resource() -> list[EmbeddedResource]:
    """Answer with a resource."""
    return [embedded("test://embedded-resource", "This is an embedded resource content.")]


def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Answer with text, a picture and a resource."""
    mixed = embedded("test://mixed-content-resource", '{"test": "data", "value": 123}', "application/json")
    return [text("Multiple content types test:"), image(), mixed]


def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


async def test_tool_with_logging(context: Context) -> str:
    """Log three lines on the way."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(line)
        await anyio.sleep(0.05)
    return "logged"


test_logging_tool = test_tool_with_logging


async def test_tool_with_progress(context: Context) -> str:
    """Report progress on the way."""
    for done in (0, 50, 100):
        await context.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(0.05)
    return "done"


def test_x_mcp_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "",  # noqa: PT028 - no test of ours
) -> str:
    """Take an argument that a client repeats in a header."""
    return region


def json_schema_2020_12_tool() -> str:
    """Have a schema with keywords that are easily lost."""
    return "json_schema_2020_12_tool"


SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}, "phone": {"type": "string"}},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["name"]}]}],
    "if": {"properties": {"name": {"const": "phone"}}},
    "then": {"required": ["phone"]},
    "else": {"required": ["name"]},
    "additionalProperties": False,
}


# Tools that ask the client, of protocols with sessions ------------------------------------------------------------------


async def test_sampling(prompt: str, context: Context) -> str:
    """Ask the client's model."""
    question = [SamplingMessage(role="user", content=text(prompt))]
    answer = await context.session.create_message(question, max_tokens=100, related_request_id=context.request_id)
    return f"LLM response: {getattr(answer.content, 'text', '')}"


class Answered(BaseModel):
    """What a user types."""

    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


async def test_elicitation(message: str, context: Context) -> str:
    """Ask the user."""
    return await _asked(context, message, Answered)


async def test_streaming_elicitation(context: Context) -> str | InputRequiredResult:
    """Ask the user, and log on the way."""
    await context.info("asking")
    return InputRequiredResult(input_requests={"user_name": _question("What is your name?")})


class Defaults(BaseModel):
    """Fields of each kind with a default."""

    name: str = Field(default="John Doe", description="User name")
    age: int = Field(default=30, description="User age")
    score: float = Field(default=95.5, description="User score")
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(default=True, description="Verification status")


async def test_elicitation_sep1034_defaults(context: Context) -> str:
    """Ask the user with defaults."""
    return await _asked(context, "Check these", Defaults)


def _titled(**titles: str) -> Any:
    return [{"const": value, "title": title} for value, title in titles.items()]


class Choices(BaseModel):
    """Choices in each way that a schema can say them."""

    untitledSingle: str = Field(json_schema_extra={"enum": ["option1", "option2", "option3"]})  # noqa: N815 - the suite's
    titledSingle: str = Field(  # noqa: N815
        json_schema_extra={"oneOf": _titled(value1="First", value2="Second", value3="Third")}
    )
    untitledMulti: list[str] = Field(  # noqa: N815
        json_schema_extra={"items": {"type": "string", "enum": ["option1", "option2", "option3"]}}
    )
    titledMulti: list[str] = Field(  # noqa: N815
        json_schema_extra={"items": {"anyOf": _titled(value1="First", value2="Second", value3="Third")}}
    )
    legacyEnum: str = Field(  # noqa: N815
        json_schema_extra={"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    )


async def test_elicitation_sep1330_enums(context: Context) -> str:
    """Ask the user to choose."""
    return await _asked(context, "Choose", Choices)


async def _asked(context: Context, message: str, schema: type[BaseModel]) -> str:
    answer = await context.elicit(message=message, schema=schema)
    given = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return f"User response: action={answer.action}, content={given}"


# Tools that need input, of the protocol without sessions ----------------------------------------------------------------


def _question(message: str, field: str = "name", kind: str = "string") -> ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(question: str) -> CreateMessageRequest:
    messages = [SamplingMessage(role="user", content=text(question))]
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=messages, max_tokens=100))


def _given(context: Context, name: str) -> Any:
    """Return what the client answered to a question, None if it did not."""
    return (context.input_responses or {}).get(name)


def _field(answer: Any, name: str) -> str:
    return str((getattr(answer, "content", None) or {}).get(name, ""))


async def test_input_required_result_elicitation(context: Context) -> str | InputRequiredResult:
    """Need a name."""
    if answer := _given(context, "user_name"):
        return f"Hello, {_field(answer, 'name')}!"
    return InputRequiredResult(input_requests={"user_name": _question("What is your name?")})


async def test_input_required_result_sampling(context: Context) -> str | InputRequiredResult:
    """Need an answer of the client's model."""
    if answer := _given(context, "capital_question"):
        return f"The model says: {getattr(answer.content, 'text', '')}"
    return InputRequiredResult(input_requests={"capital_question": _sample("What is the capital of France?")})


async def test_input_required_result_list_roots(context: Context) -> str | InputRequiredResult:
    """Need the client's roots."""
    if answer := _given(context, "client_roots"):
        return f"{len(answer.roots)} roots"
    return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})


async def test_input_required_result_request_state(context: Context) -> str | InputRequiredResult:
    """Need a confirmation, and the state that was handed out with the question."""
    if _given(context, "confirm") and context.request_state == "asked":
        return "state-ok"
    return InputRequiredResult(input_requests={"confirm": _question("Go on?", "ok", "boolean")}, request_state="asked")


test_input_required_result_tampered_state = test_input_required_result_request_state


async def test_input_required_result_multiple_inputs(context: Context) -> str | InputRequiredResult:
    """Need three answers at once."""
    asked: dict[str, Any] = {
        "user_name": _question("What is your name?"),
        "greeting": _sample("Write a greeting"),
        "client_roots": ListRootsRequest(),
    }
    if all(_given(context, name) for name in asked):
        return "all are there"
    return InputRequiredResult(input_requests=asked, request_state="three")


async def test_input_required_result_multi_round(context: Context) -> str | InputRequiredResult:
    """Need a name, then a colour; the state holds what is known."""
    known: dict[str, str] = json.loads(context.request_state or "{}")
    if known.get("asked") == "colour" and (answer := _given(context, "step2")):
        return f"{known['name']} likes {_field(answer, 'color')}"
    if known.get("asked") == "name" and (answer := _given(context, "step1")):
        state = {"asked": "colour", "name": _field(answer, "name")}
        return InputRequiredResult(
            input_requests={"step2": _question("Which colour?", "color")}, request_state=json.dumps(state)
        )
    return InputRequiredResult(
        input_requests={"step1": _question("What is your name?")}, request_state=json.dumps({"asked": "name"})
    )


async def test_input_required_result_capabilities(context: Context) -> InputRequiredResult:
    """Need what the client says that it can give, and nothing else."""
    can = context.client_capabilities
    asked: dict[str, Any] = {}
    if can is None or can.sampling is not None:
        asked["sample"] = _sample("Say hello")
    if can is None or can.elicitation is not None:
        asked["ask"] = _question("What is your name?")
    return InputRequiredResult(input_requests=asked, request_state="asked")


async def test_missing_capability(context: Context) -> str:
    """Need a client that samples."""
    can = context.session.client_capabilities
    if can is None or can.sampling is None:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY, "a client that samples is needed", {"requiredCapabilities": {"sampling": {}}}
        )
    return "the client samples"


# Resources and prompts --------------------------------------------------------------------------------------------------


def test_simple_prompt() -> str:
    """Return a prompt without arguments."""
    return "This is a simple prompt for testing."


def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Return a prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 - the suite's
    """Return a prompt with a resource in it."""
    return [UserMessage(embedded(resourceUri, "Embedded resource content for testing.")), UserMessage("Please process it.")]


def test_prompt_with_image() -> list[UserMessage]:
    """Return a prompt with a picture in it."""
    return [UserMessage(image()), UserMessage("Please analyze it.")]


async def test_input_required_result_prompt(context: Context) -> str | InputRequiredResult:
    """Return a prompt that needs input."""
    if answer := _given(context, "user_context"):
        return f"Use this: {_field(answer, 'context')}"
    return InputRequiredResult(input_requests={"user_context": _question("What should it use?", "context")})


def _same(content: str | bytes) -> str | bytes:
    return content


def _data(id: str) -> str:  # noqa: A002 - the suite's
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def offer(server: MCPServer[Any]) -> None:
    """Add to a server what the suite asks for."""
    for name, made in globals().items():
        if name.startswith("test_") and "prompt" in name:
            server.add_prompt(Prompt.from_function(made, name=name))
        elif name.startswith("test_"):
            server.add_tool(made, name=name)

    server.add_tool(json_schema_2020_12_tool)
    server._tool_manager._tools["json_schema_2020_12_tool"].parameters = SCHEMA  # the SDK makes schemas of functions only

    def changing(kind: str) -> Any:
        async def change(context: Context) -> str:
            await getattr(context, f"notify_{kind}s_changed")()
            return "told"

        return change

    for kind in ("tool", "prompt"):
        server.add_tool(changing(kind), name=f"test_trigger_{kind}_change", description="Tell that the list changed.")
    constant: dict[str, tuple[str, str | bytes]] = {
        "static-text": ("text/plain", "This is the content of the static text resource."),
        "static-binary": ("image/png", base64.b64decode(IMAGE)),
        "watched-resource": ("text/plain", "Watched resource content"),
    }
    for name, (kind, content) in constant.items():
        server.resource(f"test://{name}", name=name, mime_type=kind)(partial(_same, content))
    server.resource("test://template/{id}/data", mime_type="application/json")(_data)

    async def done(*_: Any) -> EmptyResult:
        return EmptyResult()

    # The SDK has these handlers in its lower half alone.
    low = server._lowlevel_server
    low.add_request_handler("logging/setLevel", SetLevelRequestParams, done)
    low.add_request_handler("resources/subscribe", SubscribeRequestParams, done)
    low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, done)


def main() -> None:
    """Print the URL and serve until standard input closes: whoever started this may end without a word."""
    warnings.simplefilter("ignore")  # the suite asks for what the SDK calls deprecated
    server = app.build()
    if sys.argv[1:] == ["fixture"]:
        offer(server)

    def wait() -> None:
        with suppress(OSError, ValueError):
            sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    where = http_server.address("0")
    with http_server.bound(where) as listening:
        threading.Thread(target=wait, daemon=True).start()
        print(where._replace(port=listening.getsockname()[1]).url, flush=True)
        http_server.serve(server, listening, token="", names=())


if __name__ == "__main__":
    main()
