"""What is let go: strategies, their configuration, and the step loop's context (floor 3)."""

from typing import TYPE_CHECKING

from ..events._lazy import lazy_exports

if TYPE_CHECKING:
    from .attention import (
        LLMAttentionCondenser as LLMAttentionCondenser,
        LLMAttentionCondenserConfig as LLMAttentionCondenserConfig,
    )
    from .base import (
        CannotCondense as CannotCondense,
        Condensation as Condensation,
        Condenser as Condenser,
        RollingCondenser as RollingCondenser,
    )
    from .clearing import (
        ToolClearingCondenser as ToolClearingCondenser,
        ToolClearingCondenserConfig as ToolClearingCondenserConfig,
    )
    from .config import (
        CondenserConfig as CondenserConfig,
        InvalidConfig as InvalidConfig,
        Parts as Parts,
        register_condenser as register_condenser,
    )
    from .context import (
        AgentContext as AgentContext,
    )
    from .cost_aware import (
        CostAwareCondenser as CostAwareCondenser,
        CostAwareCondenserConfig as CostAwareCondenserConfig,
    )
    from .digest import (
        Digest as Digest,
        DigestCondenser as DigestCondenser,
        DigestCondenserConfig as DigestCondenserConfig,
    )
    from .extractive import (
        ExtractiveModel as ExtractiveModel,
    )
    from .folding import (
        CONDENSE_TOOL as CONDENSE_TOOL,
        FOLD_TOOL as FOLD_TOOL,
    )
    from .forgetting import (
        AmortizedForgettingCondenser as AmortizedForgettingCondenser,
        AmortizedForgettingCondenserConfig as AmortizedForgettingCondenserConfig,
        MessageLimitCondenser as MessageLimitCondenser,
        MessageLimitCondenserConfig as MessageLimitCondenserConfig,
        RoundsCondenser as RoundsCondenser,
        RoundsCondenserConfig as RoundsCondenserConfig,
        TokenLimitCondenser as TokenLimitCondenser,
        TokenLimitCondenserConfig as TokenLimitCondenserConfig,
    )
    from .from_config import (
        condenser_from_config as condenser_from_config,
    )
    from .ledger import (
        ArtifactLedger as ArtifactLedger,
    )
    from .llm import (
        LLM as LLM,
        LLMConfig as LLMConfig,
        LLMError as LLMError,
    )
    from .lookup import (
        told_of as told_of,
    )
    from .masking import (
        BrowserOutputCondenser as BrowserOutputCondenser,
        BrowserOutputCondenserConfig as BrowserOutputCondenserConfig,
        ObservationMaskingCondenser as ObservationMaskingCondenser,
        ObservationMaskingCondenserConfig as ObservationMaskingCondenserConfig,
    )
    from .noop import (
        NoOpCondenser as NoOpCondenser,
        NoOpCondenserConfig as NoOpCondenserConfig,
    )
    from .pipeline import (
        CondenserPipeline as CondenserPipeline,
        CondenserPipelineConfig as CondenserPipelineConfig,
    )
    from .prices import (
        Prices as Prices,
    )
    from .recent import (
        RecentEventsCondenser as RecentEventsCondenser,
        RecentEventsCondenserConfig as RecentEventsCondenserConfig,
    )
    from .recorded import (
        RecordedCondenser as RecordedCondenser,
        RecordedCondenserConfig as RecordedCondenserConfig,
    )
    from .structured import (
        StructuredSummaryCondenser as StructuredSummaryCondenser,
        StructuredSummaryCondenserConfig as StructuredSummaryCondenserConfig,
    )
    from .summarizing import (
        LLMSummarizingCondenser as LLMSummarizingCondenser,
        LLMSummarizingCondenserConfig as LLMSummarizingCondenserConfig,
    )
    from .superseded import (
        SupersededCondenser as SupersededCondenser,
        SupersededCondenserConfig as SupersededCondenserConfig,
    )
    from .truncation import (
        TruncationCondenser as TruncationCondenser,
        TruncationCondenserConfig as TruncationCondenserConfig,
    )
    from .window import (
        ConversationWindowCondenser as ConversationWindowCondenser,
        ConversationWindowCondenserConfig as ConversationWindowCondenserConfig,
    )
    from .work_state import (
        StateOfWork as StateOfWork,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "attention": ("LLMAttentionCondenser", "LLMAttentionCondenserConfig"),
            "base": (
                "CannotCondense",
                "Condensation",
                "Condenser",
                "RollingCondenser",
            ),
            "clearing": ("ToolClearingCondenser", "ToolClearingCondenserConfig"),
            "config": (
                "CondenserConfig",
                "InvalidConfig",
                "Parts",
                "register_condenser",
            ),
            "context": ("AgentContext",),
            "cost_aware": ("CostAwareCondenser", "CostAwareCondenserConfig"),
            "digest": (
                "Digest",
                "DigestCondenser",
                "DigestCondenserConfig",
            ),
            "extractive": ("ExtractiveModel",),
            "folding": ("CONDENSE_TOOL", "FOLD_TOOL"),
            "forgetting": (
                "AmortizedForgettingCondenser",
                "AmortizedForgettingCondenserConfig",
                "MessageLimitCondenser",
                "MessageLimitCondenserConfig",
                "RoundsCondenser",
                "RoundsCondenserConfig",
                "TokenLimitCondenser",
                "TokenLimitCondenserConfig",
            ),
            "from_config": ("condenser_from_config",),
            "ledger": ("ArtifactLedger",),
            "llm": ("LLM", "LLMConfig", "LLMError"),
            "lookup": ("told_of",),
            "masking": (
                "BrowserOutputCondenser",
                "BrowserOutputCondenserConfig",
                "ObservationMaskingCondenser",
                "ObservationMaskingCondenserConfig",
            ),
            "noop": ("NoOpCondenser", "NoOpCondenserConfig"),
            "pipeline": ("CondenserPipeline", "CondenserPipelineConfig"),
            "prices": ("Prices",),
            "recent": ("RecentEventsCondenser", "RecentEventsCondenserConfig"),
            "recorded": (
                "RecordedCondenser",
                "RecordedCondenserConfig",
            ),
            "structured": ("StructuredSummaryCondenser", "StructuredSummaryCondenserConfig"),
            "summarizing": ("LLMSummarizingCondenser", "LLMSummarizingCondenserConfig"),
            "superseded": ("SupersededCondenser", "SupersededCondenserConfig"),
            "truncation": ("TruncationCondenser", "TruncationCondenserConfig"),
            "window": ("ConversationWindowCondenser", "ConversationWindowCondenserConfig"),
            "work_state": ("StateOfWork",),
        },
    )
