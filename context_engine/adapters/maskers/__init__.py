"""Personal data in texts, recognised by checksums and by the numbering plans of networks and countries."""

from context_engine.adapters.maskers.personal_data import PersonalDataOptions, open_personal_data

__all__ = ["PersonalDataOptions", "open_personal_data"]
