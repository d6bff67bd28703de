"""The engine's side of the Dify plugin, without Dify's SDK: settings from form fields, answers in Dify's shapes."""
