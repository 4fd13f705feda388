"""What an application on a phone needs beside the model file."""
