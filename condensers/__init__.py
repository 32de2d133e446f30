"""What is let go: strategies, their configuration, and the step loop's context (floor 3)."""

from typing import TYPE_CHECKING

from ..events._lazy import lazy_exports

if TYPE_CHECKING:
    from .base import (
        CannotCondense as CannotCondense,
        Condensation as Condensation,
        Condenser as Condenser,
        RollingCondenser as RollingCondenser,
    )
    from .config import (
        CondenserConfig as CondenserConfig,
        InvalidConfig as InvalidConfig,
        condenser_from_config as condenser_from_config,
        register_condenser as register_condenser,
    )
    from .context import (
        AgentContext as AgentContext,
    )
    from .extractive import (
        ExtractiveModel as ExtractiveModel,
    )
    from .masking import (
        BrowserOutputCondenser as BrowserOutputCondenser,
        BrowserOutputCondenserConfig as BrowserOutputCondenserConfig,
    )
    from .noop import (
        NoOpCondenser as NoOpCondenser,
        NoOpCondenserConfig as NoOpCondenserConfig,
    )
    from .pipeline import (
        CondenserPipeline as CondenserPipeline,
        CondenserPipelineConfig as CondenserPipelineConfig,
    )
    from .summarizing import (
        LLMSummarizingCondenser as LLMSummarizingCondenser,
        LLMSummarizingCondenserConfig as LLMSummarizingCondenserConfig,
    )
    from .window import (
        ConversationWindowCondenser as ConversationWindowCondenser,
        ConversationWindowCondenserConfig as ConversationWindowCondenserConfig,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "base": (
                "CannotCondense",
                "Condensation",
                "Condenser",
                "RollingCondenser",
            ),
            "config": (
                "CondenserConfig",
                "InvalidConfig",
                "condenser_from_config",
                "register_condenser",
            ),
            "context": ("AgentContext",),
            "extractive": ("ExtractiveModel",),
            "masking": ("BrowserOutputCondenser", "BrowserOutputCondenserConfig"),
            "noop": ("NoOpCondenser", "NoOpCondenserConfig"),
            "pipeline": ("CondenserPipeline", "CondenserPipelineConfig"),
            "summarizing": ("LLMSummarizingCondenser", "LLMSummarizingCondenserConfig"),
            "window": ("ConversationWindowCondenser", "ConversationWindowCondenserConfig"),
        },
    )
