"""Event classes as classes: frozen, with slots, and their arguments checked by pydantic."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, field
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

import pytest
from hypothesis import example, given, settings, strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    computed_field,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import ArgsKwargs

from eventfold.events import (
    Action,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    Event,
    EventSource,
    FileEditAction,
    MessageAction,
    ModelResponse,
    Observation,
    ToolCallMetadata,
    UnknownEvent,
    register_event,
)
from eventfold.events.event import ACTIONS, OBSERVATIONS, Json, JsonObject, Wire, per_class

KINDS: list[type[Any]] = [
    Event,
    Action,
    Observation,
    UnknownEvent,
    ToolCallMetadata,
    *ACTIONS.values(),
    *OBSERVATIONS.values(),
]


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Forgets the kinds that a test registers."""
    known = {*ACTIONS, *OBSERVATIONS}
    yield
    for family in (ACTIONS, OBSERVATIONS):
        for kind in [*family]:
            if kind not in known:
                del family[kind]


def errors(make: Any, *args: Any, **kwargs: Any) -> list[tuple[Any, ...]]:
    """Where, which and what: the errors of a construction that fails."""
    with pytest.raises(ValidationError) as caught:
        make(*args, **kwargs)
    found = caught.value.errors(include_url=False)
    return [(*error["loc"], error["type"], error["msg"]) for error in found]


def names_of(cls: type[Any]) -> list[str]:
    return [one.name for one in dataclasses.fields(cls)]


# The classes


@pytest.mark.parametrize("cls", KINDS)
def test_a_class_has_slots_and_no_dict(cls: type[Any]) -> None:
    event = object.__new__(cls)
    assert not hasattr(event, "__dict__")
    assert not hasattr(event, "__weakref__")
    slots = [name for base in cls.__mro__ for name in vars(base).get("__slots__", ())]
    assert sorted(slots) == sorted(names_of(cls))


@pytest.mark.parametrize("cls", KINDS)
def test_nothing_can_be_set_or_deleted(cls: type[Any]) -> None:
    event = object.__new__(cls)
    for name in (*names_of(cls), "something_new", "__class__"):
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(event, name, None)
        with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(event, name)


def test_own_fields_are_positional_and_those_of_every_event_by_name() -> None:
    assert CmdRunAction("ls", True) == CmdRunAction(command="ls", is_input=True)
    assert CmdRunAction.__match_args__[:2] == ("command", "is_input")
    assert Event.__match_args__ == Action.__match_args__ == ()
    match CmdOutputObservation("output", "ls", exit_code=1):
        case CmdOutputObservation(content, command, exit_code=code):
            assert (content, command, code) == ("output", "ls", 1)
        case _:
            pytest.fail("no match")


def test_inspect_shows_the_arguments() -> None:
    assert str(inspect.signature(ToolCallMetadata)).startswith(
        "(function_name: 'str', tool_call_id: 'str', total_calls_in_response: 'int' = 1, "
    )
    arguments = inspect.signature(CmdOutputObservation).parameters
    assert list(arguments)[:4] == ["content", "command", "metadata", "exit_code"]
    assert arguments["content"].default == ""
    assert repr(arguments["metadata"].default) == "<factory>"
    assert arguments["id"].kind is inspect.Parameter.KEYWORD_ONLY
    assert inspect.signature(MessageAction).parameters["content"].default is inspect.Parameter.empty


def test_they_are_dataclasses() -> None:
    action = CmdRunAction("ls", id=3)
    assert dataclasses.is_dataclass(action)
    assert dataclasses.replace(action, command="pwd") == CmdRunAction("pwd", id=3)
    assert dataclasses.asdict(ToolCallMetadata("a", "b"))["tool_call_id"] == "b"
    with pytest.raises(ValidationError):
        dataclasses.replace(action, command=1)  # type: ignore[arg-type]


def test_documentation_stays_as_written() -> None:
    @register_event("test_only")
    class Undocumented(Action):
        pass

    assert Undocumented.__doc__ is None
    assert CmdRunAction.__doc__ == "A shell command."
    assert CmdRunAction.__init__.__qualname__ == "CmdRunAction.__init__"


# The objects


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_and_copies_are_equal_and_frozen(protocol: int) -> None:
    metadata = ToolCallMetadata("bash", "call_1", 1, {"id": "r1"})  # type: ignore[arg-type]
    action = CmdRunAction("ls", tool_call_metadata=metadata, timestamp=datetime.now(UTC))
    if protocol < 2:  # they know no slots
        with pytest.raises(TypeError):
            pickle.dumps(action, protocol)
        return
    for twin in (
        pickle.loads(pickle.dumps(action, protocol)),
        copy.copy(action),
        copy.deepcopy(action),
        action.replace(),
    ):
        assert type(twin) is CmdRunAction
        assert twin == action
        assert hash(twin) == hash(action)
        with pytest.raises(FrozenInstanceError):
            twin.command = "pwd"  # type: ignore[misc]


def test_metadata_is_equal_by_its_fields() -> None:
    metadata = ToolCallMetadata("bash", "call_1", 2)
    assert metadata == ToolCallMetadata("bash", "call_1", 2)
    assert len({metadata, ToolCallMetadata("bash", "call_1", 2)}) == 1
    assert metadata != ToolCallMetadata("bash", "call_1", 3)
    assert metadata != ("bash", "call_1", 2, None)
    assert repr(metadata) == (
        "ToolCallMetadata(function_name='bash', tool_call_id='call_1', "
        "total_calls_in_response=2, model_response=None)"
    )


def test_a_changed_copy_has_no_new_fields() -> None:
    with pytest.raises(AttributeError):
        CmdRunAction("ls").replace(comand="pwd")


def test_a_copy_of_a_plain_subclass_is_of_that_class() -> None:
    class Quiet(CmdRunAction):
        def llm_text(self) -> str | None:
            return ""

    class Slim(CmdRunAction):
        __slots__ = ()

    for cls in (Quiet, Slim):
        event = cls("ls").replace(id=4)
        assert (type(event), event.id, event.command) == (cls, 4, "ls")
        assert errors(cls, 1)[0][:2] == (0, "is_instance_of")
        with pytest.raises(FrozenInstanceError):
            event.command = "pwd"  # type: ignore[misc]


# What is checked


def test_errors_name_the_argument() -> None:
    text = ("is_instance_of", "Input should be an instance of str")
    assert errors(CmdRunAction, b"ls") == [(0, *text)]
    assert errors(CmdRunAction, command=b"ls") == [("command", *text)]
    assert errors(CmdRunAction) == [("command", "missing", "Field required")]
    assert errors(MessageAction, "", image_urls=["a", 1]) == [("image_urls", 1, *text)]
    assert errors(CmdRunAction, "ls", command="ls") == [
        ("command", "multiple_argument_values", "Got multiple values for argument")
    ]
    assert errors(CmdRunAction, "ls", self=1) == [
        ("self", "unexpected_keyword_argument", "Unexpected keyword argument")
    ]
    assert errors(Event, 3) == [
        (0, "unexpected_positional_argument", "Unexpected positional argument")
    ]
    assert errors(Event, id="1", source="nobody", cause=1.0, hidden=1, llm_metrics=[], wire={}) == [
        ("id", "int_type", "Input should be a valid integer"),
        ("source", "enum", "Input should be 'agent', 'user' or 'environment'"),
        ("cause", "int_type", "Input should be a valid integer"),
        ("llm_metrics", "value_error", "Value error, expected a JSON object, found list"),
        ("hidden", "bool_type", "Input should be a valid boolean"),
        ("wire", "is_instance_of", "Input should be an instance of Wire"),
    ]


def test_times_sources_and_metadata_may_be_given_as_text_and_dicts() -> None:
    event = Event(
        timestamp="2025-06-15T12:00:00Z",  # type: ignore[arg-type]
        source="user",  # type: ignore[arg-type]
        tool_call_metadata={"function_name": "f", "tool_call_id": "c"},  # type: ignore[arg-type]
    )
    assert event.timestamp == datetime(2025, 6, 15, 12, tzinfo=UTC)
    assert event.source is EventSource.USER
    assert event.tool_call_metadata == ToolCallMetadata("f", "c")


def test_tool_call_metadata_is_lenient() -> None:
    assert ToolCallMetadata("f", "c", "2").total_calls_in_response == 2  # type: ignore[arg-type]
    assert ToolCallMetadata("f", "c", more=1) == ToolCallMetadata("f", "c")  # type: ignore[call-arg]
    assert errors(ToolCallMetadata, "f", "c", 1, 3) == [
        (3, "value_error", "Value error, an LLM response is a JSON object, found int")
    ]


def test_a_failed_construction_leaves_the_class_as_it_is() -> None:
    @register_event("test_only")
    class First(Action):
        size: int

    for _ in range(2):
        assert errors(First, size="1") == [("size", "int_type", "Input should be a valid integer")]
    assert First(1).size == 1


def test_events_can_be_fields_of_pydantic_models() -> None:
    class Record(BaseModel):
        action: CmdRunAction
        metadata: ToolCallMetadata | None = None

    record = Record(
        action=CmdRunAction("ls"),
        metadata={"function_name": "f", "tool_call_id": "c"},  # type: ignore[arg-type]
    )
    assert record.metadata == ToolCallMetadata("f", "c")
    assert record.model_dump()["action"]["command"] == "ls"
    with pytest.raises(ValidationError, match="instance of CmdRunAction"):
        Record(action="ls")  # type: ignore[arg-type]
    assert TypeAdapter(Event).dump_python(CmdRunAction("ls"))["id"] == -1


class Word(str):
    """A text of a class of its own."""


ARGUMENTS: dict[str, Any] = {
    "none": None,
    "true": True,
    "int": 3,
    "negative": -1,
    "float": 2.5,
    "text": "text",
    "surrogate": "\ud800",
    "word": Word("word"),
    "bytes": b"bytes",
    "time": datetime(2025, 6, 15, 12, tzinfo=UTC),
    "time as text": "2025-06-15T12:00:00",
    "source": EventSource.USER,
    "source as text": "user",
    "metadata": ToolCallMetadata("f", "c"),
    "metadata as dict": {"function_name": "f", "tool_call_id": "c"},
    "response": ModelResponse.of({"id": "r1"}),
    "object": {"a": {"b": (1, 2)}, 3: "c"},
    "list": ["a", "b"],
    "ids": [1, 2],
    "nothing": [],
    "wire": Wire(("action",), None, {}, {}),
    "no JSON": {"a": {1, 2}},
    "whatever": object(),
}


@st.composite
def calls(draw: st.DrawFn) -> tuple[type[Any], list[str], dict[str, str]]:
    """A class and arguments for it, by their names above; many fit, many do not."""
    cls = draw(st.sampled_from(KINDS))
    arguments = st.sampled_from(sorted(ARGUMENTS))
    names = names_of(cls)
    by_place = [draw(arguments) for _ in range(draw(st.integers(0, 3)))]
    required = [
        name
        for name, parameter in inspect.signature(cls).parameters.items()
        if parameter.default is inspect.Parameter.empty and draw(st.integers(0, 9))
    ]
    others = draw(st.lists(st.sampled_from([*names, "odd"]), max_size=3))
    left = (name for name in [*required, *others] if name not in names[8:][: len(by_place)])
    return cls, by_place, {name: draw(arguments) for name in left}


@settings(max_examples=500)
@given(calls())
@example((CmdRunAction, ["text"], {"source": "source", "timestamp": "time", "wire": "wire"}))
@example((CmdRunAction, ["text"], {"id": "true"}))
@example((CmdRunAction, ["text"], {"hidden": "int"}))
@example((CmdOutputObservation, ["text"], {"metadata": "object", "exit_code": "int"}))
@example((CmdOutputObservation, ["text"], {"metadata": "no JSON"}))
@example((ToolCallMetadata, ["text", "surrogate"], {"model_response": "object"}))
@example((ToolCallMetadata, ["text", "text", "int", "response"], {}))
@example((CondensationAction, [], {"forgotten_event_ids": "ids"}))
@example((CondensationAction, ["ids"], {"summary": "text"}))
def test_an_object_is_what_pydantic_alone_would_make_of_the_arguments(
    call: tuple[type[Any], list[str], dict[str, str]],
) -> None:
    cls, by_place, by_name = call
    args = tuple(ARGUMENTS[name] for name in by_place)
    kwargs = {key: ARGUMENTS[name] for key, name in by_name.items()}
    expected = object.__new__(cls)
    refused: ValidationError | None = None
    try:
        adapter_of(cls).validator.validate_python(ArgsKwargs(args, kwargs), self_instance=expected)
    except ValidationError as error:
        refused = error
    if refused is not None:
        with pytest.raises(ValidationError) as caught:
            cls(*args, **kwargs)
        assert str(caught.value) == str(refused)
        assert caught.value.errors(include_context=False) == refused.errors(include_context=False)
        return
    made = cls(*args, **kwargs)
    assert type(made) is cls
    for value, other in zip(made.__getstate__(), expected.__getstate__(), strict=True):
        assert type(value) is type(other)
        assert value == other
    with pytest.raises(FrozenInstanceError):
        made.id = 1


@per_class
def adapter_of(cls: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


# Classes of others


class Place(BaseModel):
    zone: str


@register_event("test_deploy")
class DeployAction(Action):
    target: str
    replicas: Annotated[int, Field(gt=0)] = 1
    how: Literal["rolling", "at once"] = "rolling"
    place: Place | None = None
    steps: list[Step] = field(default_factory=list)
    retries: int = Field(default=3, lt=10)
    before: list[DeployAction] = field(default_factory=list)

    @field_validator("target")
    @classmethod
    def known(cls, target: str) -> str:
        if target == "mars":
            raise ValueError("no such target")
        return target.upper()


del ACTIONS["test_deploy"]  # it is no concern of other tests


@dataclasses.dataclass
class Step:  # defined after the class that names it
    name: str


def test_constraints_of_pydantic_hold() -> None:
    first = DeployAction("a", 2, "at once", Place(zone="b"), [Step("c")])
    assert (first.target, first.retries, first.steps) == ("A", 3, [Step("c")])
    assert DeployAction("b", before=[first]).before == [first]
    assert errors(DeployAction, "a", 0)[0][:2] == (1, "greater_than")
    assert errors(DeployAction, "a", how="never")[0][:2] == ("how", "literal_error")
    assert errors(DeployAction, "a", steps=[{"name": "a"}])[0][0:2] == ("steps", 0)
    assert errors(DeployAction, "a", retries=10)[0][:2] == ("retries", "less_than")
    assert errors(DeployAction, "mars") == [(0, "value_error", "Value error, no such target")]
    assert errors(DeployAction, "a", place={"zone": 1})[0][:2] == ("place", "zone")


def test_a_field_may_ask_for_more_than_a_type() -> None:
    @register_event("test_limited")
    class Limited(Action):
        size: Annotated[int, Field(gt=0)]
        name: Annotated[str, Field(max_length=3)] = "a"

    assert Limited(1, "abc").name == "abc"
    assert errors(Limited, 0)[0][:2] == (0, "greater_than")
    assert errors(Limited, 1, name="abcd")[0][:2] == ("name", "string_too_long")

    @register_event("test_aliased")
    class Aliased(Action):
        size: int = Field(default=1, validation_alias="how_big")

    assert Aliased(how_big=2).size == 2  # type: ignore[call-arg]
    assert errors(Aliased, size=2)[0][:2] == ("size", "unexpected_keyword_argument")

    @register_event("test_fixed")
    class Fixed(Action):
        size: int = field(default=1, init=False)

    assert Fixed().size == 1
    assert errors(Fixed, size=2)[0][:2] == ("size", "unexpected_keyword_argument")


@pydantic_dataclass(config=ConfigDict(revalidate_instances="always"))
class Box:
    size: int


def test_a_value_may_be_checked_whatever_its_type() -> None:
    @register_event("test_only")
    class Packed(Action):
        box: Box

    box = Box(1)
    assert Packed(box).box == box
    box.size = "large"  # type: ignore[assignment]
    assert errors(Packed, box)[0][:2] == (0, "size")


def test_defaults_may_be_made_checked_and_copied() -> None:
    failures: list[Exception] = []

    def make() -> Any:
        if failures:
            raise failures.pop()
        return {}

    @register_event("test_only")
    class Defaults(Action):
        size: int = 2
        double: int = Field(default_factory=lambda given: given["size"] * 2)
        made: JsonObject = field(default_factory=make)

    assert (Defaults(size=4).double, Defaults(double=5).double) == (8, 5)
    assert Defaults().made is not Defaults().made

    @register_event("test_made")
    class Made(Action):
        made: JsonObject = field(default_factory=make)

    failures.append(ValueError("not yet"))
    with pytest.raises(ValueError, match="not yet"):
        Made()
    with pytest.raises(FrozenInstanceError):
        Made().made = {}  # type: ignore[misc]

    @register_event("test_checked")
    class Checked(Action):
        pair: Json = Field(default_factory=lambda: (1, 2), validate_default=True)

    assert Checked().pair == [1, 2]

    @register_event("test_copied")
    class Copied(Action):
        box: Box = Field(default=Box(1))

    assert Copied().box == Box(1)
    assert Copied().box is not Copied().box


def test_validators_of_whole_events_run() -> None:
    @register_event("test_only")
    class Span(Action):
        begin: int
        end: int

        @model_validator(mode="after")
        def ordered(self) -> Span:
            if self.end < self.begin:
                raise ValueError("upside down")
            return self

        @computed_field  # type: ignore[prop-decorator]
        @property
        def length(self) -> int:
            return self.end - self.begin

    assert Span(1, 3).length == 2
    with pytest.raises(ValidationError, match="upside down"):
        Span(3, 1)


def test_the_forms_of_dataclass_fields_are_understood() -> None:
    @register_event("test_only")
    class Odd(Action):
        limit: ClassVar[int] = 5
        size: int = 1
        extra: dataclasses.InitVar[int] = 0
        _: dataclasses.KW_ONLY
        name: str
        tag: str = field(default="t", kw_only=True)
        fixed: int = field(default=7, init=False)

        def __post_init__(self, extra: int) -> None:
            object.__setattr__(self, "size", self.size + extra)

    odd = Odd(1, 2, name="n")
    assert (odd.size, odd.name, odd.tag, odd.fixed, odd.limit) == (3, "n", "t", 7, 5)
    assert Odd.__match_args__ == ("size", "extra")
    assert Odd.payload_fields == ("size", "name", "tag", "fixed")
    assert list(inspect.signature(Odd).parameters)[:2] == ["size", "extra"]
    with pytest.raises(ValidationError):
        Odd(1, 2, "n")  # type: ignore[arg-type, call-arg]


def test_a_kind_may_be_derived_from_a_kind() -> None:
    @register_event("test_only")
    class SudoAction(CmdRunAction):
        user: str = "root"

    action = SudoAction("ls", user="me", id=2)
    assert (action.command, action.user, action.id) == ("ls", "me", 2)
    assert SudoAction.payload_fields == (*CmdRunAction.payload_fields, "user")
    assert action != CmdRunAction("ls", id=2)


def test_a_class_that_makes_no_sense_is_refused_when_it_is_defined() -> None:
    with pytest.raises(TypeError, match="non-default argument 'size' follows default argument"):

        @register_event("test_only")
        class Behind(Observation):
            size: int  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]

    with pytest.raises(ValueError, match="mutable default <class 'list'>"):

        @register_event("test_only")
        class Shared(Action):
            sizes: list[int] = []  # noqa: RUF012

    assert "test_only" not in {**ACTIONS, **OBSERVATIONS}


# Names in annotations


def test_names_of_the_function_that_makes_the_first_object_are_known() -> None:
    Size = Literal["s", "m"]  # noqa: N806

    @register_event("test_only")
    class Shirt(Action):
        size: Size  # pyright: ignore[reportInvalidTypeForm]

    assert Shirt("s").size == "s"
    assert errors(Shirt, "xl")[0][:2] == (0, "literal_error")


def test_a_name_that_nobody_knows_is_named() -> None:
    @register_event("test_only")
    class Later(Action):
        place: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(NameError, match="Nowhere"):
        Later(place=1)


def test_names_of_the_caller_do_not_hide_those_of_the_module() -> None:
    program = """
from eventfold.events import FileEditAction

def make():
    Text = datetime = int = cls = "hidden"
    return FileEditAction(Text)

print(make())
"""
    assert run_python(program) == "FileEditAction(path='hidden')\n"


def run_python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Threads


@pytest.mark.parametrize("_", range(20))
def test_the_first_objects_of_a_class_may_be_made_by_several_threads_at_once(_: int) -> None:
    @register_event("test_only")
    class Raced(Action):
        size: Annotated[int, Field(gt=0)]
        before: list[MessageAction] = field(default_factory=list)

    made: list[Raced] = []
    refused: list[ValidationError] = []
    ready = threading.Barrier(8)

    def makes(size: int) -> None:
        ready.wait()
        try:
            made.append(Raced(size, [MessageAction("a")]).replace(id=size))
        except ValidationError as error:
            refused.append(error)

    threads = [threading.Thread(target=makes, args=(size,)) for size in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(event.id for event in made) == [*range(1, 8)]
    assert all(type(event) is Raced and event.size == event.id for event in made)
    assert [error.error_count() for error in refused] == [1]


def test_a_large_event_has_its_fields_in_order() -> None:
    event = FileEditAction("a", "b", "c", "d", "e", 6, "g", 8, 9, "j", "k", id=12)
    assert event.__getstate__()[-11:] == ["a", "b", "c", "d", "e", 6, "g", 8, 9, "j", "k"]
