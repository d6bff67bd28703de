"""What a Dify plugin needs of the engine, without Dify's SDK: settings out of form fields, answers in Dify's shapes."""
