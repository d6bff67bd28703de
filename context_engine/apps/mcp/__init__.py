"""The engine as four tools of the Model Context Protocol."""
