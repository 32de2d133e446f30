"""What is left of the log, and what is said to the LLM (floor 2)."""

from typing import TYPE_CHECKING

from ..events._lazy import lazy_exports

if TYPE_CHECKING:
    from .conversation_memory import (
        ConversationMemory as ConversationMemory,
        NothingToSend as NothingToSend,
    )
    from .message import (
        ChatModel as ChatModel,
        ImageContent as ImageContent,
        Message as Message,
        Reply as Reply,
        TextContent as TextContent,
    )
    from .rules import (
        Violation as Violation,
        check_messages as check_messages,
    )
    from .state import (
        State as State,
    )
    from .tokens import (
        Budget as Budget,
        TokenCounter as TokenCounter,
    )
    from .turns import (
        Turn as Turn,
    )
    from .view import (
        View as View,
    )
    from .writing import (
        write_run as write_run,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "conversation_memory": ("ConversationMemory", "NothingToSend"),
            "message": ("ChatModel", "ImageContent", "Message", "Reply", "TextContent"),
            "rules": ("Violation", "check_messages"),
            "state": ("State",),
            "tokens": ("Budget", "TokenCounter"),
            "turns": ("Turn",),
            "view": ("View",),
            "writing": ("write_run",),
        },
    )
