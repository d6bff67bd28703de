"""Finding personal data in texts: what a checksum, or the plan of a network or a country, tells from look-alikes."""

from context_engine.adapters.maskers.personal_data import PersonalDataOptions, open_personal_data

__all__ = ["PersonalDataOptions", "open_personal_data"]
