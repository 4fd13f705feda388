"""What an exported model answered, for programs and for people; a file a kind."""
