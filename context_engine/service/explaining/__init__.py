"""Explains how an answer was made, to people and models."""
