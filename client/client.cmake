# The client: library, parsers of data files, uopctl. Links no LLVM, SQLite or driver.
uopd_layer(client/cpp uopd_proto uopd_core_rules)
