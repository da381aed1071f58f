# Toolchain file for scripts/arm64.sh: arm64 with Debian's cross compiler. RSK_ARM64_ROOT in the
# environment is a folder with arm64 packages; tests run in it as their root, by qemu-aarch64, which
# the kernel starts for them (binfmt_misc).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_ASM_COMPILER aarch64-linux-gnu-gcc)
# CMake reads this file more than once, and in folders of its own without the environment.
if(DEFINED ENV{RSK_ARM64_ROOT})
	set(RSK_ARM64_ROOT $ENV{RSK_ARM64_ROOT} CACHE PATH "a folder with arm64 packages")
endif()
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RSK_ARM64_ROOT)
set(CMAKE_SYSROOT ${RSK_ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/../scripts/arm64.sh;--in-root)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${RSK_ARM64_ROOT})
set(ENV{PKG_CONFIG_LIBDIR}
	${RSK_ARM64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${RSK_ARM64_ROOT}/usr/share/pkgconfig)
