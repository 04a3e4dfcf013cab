# The cache: bytes by key. Nothing outside this folder sees SQLite.
find_package(SQLite3 REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(UOPD_ZSTD REQUIRED IMPORTED_TARGET libzstd)

uopd_layer(cache/base uopd_core_base)
uopd_layer(cache/memory uopd_cache_base)
uopd_layer(cache/sqlite uopd_core_base SQLite::SQLite3)
uopd_layer(cache/file uopd_cache_memory uopd_cache_sqlite)
uopd_layer(cache/cluster uopd_cache_base OpenSSL::Crypto PkgConfig::UOPD_ZSTD)
uopd_layer(cache/redis uopd_cache_cluster OpenSSL::SSL)
uopd_layer(cache/bundle uopd_cache_cluster)
uopd_layer(cache uopd_cache_file uopd_cache_redis uopd_cache_bundle)
