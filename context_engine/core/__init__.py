"""The pure core: values, text, ranking and the two stages. It opens no file and no connection and knows no adapter."""
