# The cache: bytes by key. Nothing outside this folder sees SQLite.
find_package(SQLite3 REQUIRED)

uopd_layer(cache/base uopd_core_base)
uopd_layer(cache/memory uopd_cache_base)
uopd_layer(cache/sqlite uopd_core_base SQLite::SQLite3)
uopd_layer(cache/file uopd_cache_memory uopd_cache_sqlite)
uopd_layer(cache uopd_cache_file)
