"""What happened: events, their serialization, and the stream that keeps them (floor 1)."""

from typing import TYPE_CHECKING

from ._lazy import lazy_exports

if TYPE_CHECKING:
    from .actions import (
        AgentDelegateAction as AgentDelegateAction,
        AgentFinishAction as AgentFinishAction,
        AgentRejectAction as AgentRejectAction,
        AgentThinkAction as AgentThinkAction,
        BrowseInteractiveAction as BrowseInteractiveAction,
        BrowseURLAction as BrowseURLAction,
        ChangeAgentStateAction as ChangeAgentStateAction,
        CmdRunAction as CmdRunAction,
        FileEditAction as FileEditAction,
        FileReadAction as FileReadAction,
        FileWriteAction as FileWriteAction,
        IPythonRunCellAction as IPythonRunCellAction,
        LoopRecoveryAction as LoopRecoveryAction,
        MCPAction as MCPAction,
        MessageAction as MessageAction,
        NullAction as NullAction,
        RecallAction as RecallAction,
        SystemMessageAction as SystemMessageAction,
        TaskTrackingAction as TaskTrackingAction,
    )
    from .condensation import (
        AgentCondensationObservation as AgentCondensationObservation,
        CondensationAction as CondensationAction,
        CondensationRequestAction as CondensationRequestAction,
    )
    from .event import (
        Action as Action,
        Event as Event,
        EventfoldError as EventfoldError,
        EventSource as EventSource,
        InvalidArgument as InvalidArgument,
        InvalidEvent as InvalidEvent,
        Observation as Observation,
        UnknownEvent as UnknownEvent,
        register_event as register_event,
    )
    from .filters import (
        EventFilter as EventFilter,
    )
    from .formats.runs import (
        Problem as Problem,
        Run as Run,
        UnreadableRun as UnreadableRun,
        read_runs as read_runs,
    )
    from .observations import (
        AgentDelegateObservation as AgentDelegateObservation,
        AgentStateChangedObservation as AgentStateChangedObservation,
        AgentThinkObservation as AgentThinkObservation,
        BrowserOutputObservation as BrowserOutputObservation,
        CmdOutputObservation as CmdOutputObservation,
        ErrorObservation as ErrorObservation,
        FileDownloadObservation as FileDownloadObservation,
        FileEditObservation as FileEditObservation,
        FileReadObservation as FileReadObservation,
        FileWriteObservation as FileWriteObservation,
        IPythonRunCellObservation as IPythonRunCellObservation,
        LoopDetectionObservation as LoopDetectionObservation,
        MCPObservation as MCPObservation,
        NullObservation as NullObservation,
        RecallObservation as RecallObservation,
        SuccessObservation as SuccessObservation,
        TaskTrackingObservation as TaskTrackingObservation,
        UserRejectObservation as UserRejectObservation,
    )
    from .redaction import (
        HIDDEN as HIDDEN,
    )
    from .serialization import (
        event_from_dict as event_from_dict,
        event_to_dict as event_to_dict,
    )
    from .stores.base import (
        EventStore as EventStore,
    )
    from .stores.in_memory import (
        InMemoryEventStore as InMemoryEventStore,
    )
    from .stores.jsonl import (
        JsonlEventStore as JsonlEventStore,
    )
    from .stream import (
        EventStream as EventStream,
    )
    from .tool_calls import (
        ModelResponse as ModelResponse,
        ToolCall as ToolCall,
        ToolCallMetadata as ToolCallMetadata,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "actions": (
                "AgentDelegateAction",
                "AgentFinishAction",
                "AgentRejectAction",
                "AgentThinkAction",
                "BrowseInteractiveAction",
                "BrowseURLAction",
                "ChangeAgentStateAction",
                "CmdRunAction",
                "FileEditAction",
                "FileReadAction",
                "FileWriteAction",
                "IPythonRunCellAction",
                "LoopRecoveryAction",
                "MCPAction",
                "MessageAction",
                "NullAction",
                "RecallAction",
                "SystemMessageAction",
                "TaskTrackingAction",
            ),
            "condensation": (
                "AgentCondensationObservation",
                "CondensationAction",
                "CondensationRequestAction",
            ),
            "event": (
                "Action",
                "Event",
                "EventSource",
                "EventfoldError",
                "InvalidArgument",
                "InvalidEvent",
                "Observation",
                "UnknownEvent",
                "register_event",
            ),
            "filters": ("EventFilter",),
            "formats.runs": ("Problem", "Run", "UnreadableRun", "read_runs"),
            "observations": (
                "AgentDelegateObservation",
                "AgentStateChangedObservation",
                "AgentThinkObservation",
                "BrowserOutputObservation",
                "CmdOutputObservation",
                "ErrorObservation",
                "FileDownloadObservation",
                "FileEditObservation",
                "FileReadObservation",
                "FileWriteObservation",
                "IPythonRunCellObservation",
                "LoopDetectionObservation",
                "MCPObservation",
                "NullObservation",
                "RecallObservation",
                "SuccessObservation",
                "TaskTrackingObservation",
                "UserRejectObservation",
            ),
            "redaction": ("HIDDEN",),
            "serialization": ("event_from_dict", "event_to_dict"),
            "stores.base": ("EventStore",),
            "stores.in_memory": ("InMemoryEventStore",),
            "stores.jsonl": ("JsonlEventStore",),
            "stream": ("EventStream",),
            "tool_calls": ("ModelResponse", "ToolCall", "ToolCallMetadata"),
        },
    )
