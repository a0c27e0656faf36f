"""What clients may do: what each API asks for, and who decides."""
