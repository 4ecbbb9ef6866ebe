# kvase_component(name SOURCES ... LINKS ...): one folder of src/ as a static library with the project's warnings.
# kvase_test(name SOURCES ... LINKS ... [PROPERTIES ...]): one GoogleTest executable, registered test by test.
include(GoogleTest)

function(kvase_target_settings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                         -Wnon-virtual-dtor -Wold-style-cast)
  if(KVASE_DEVELOPER)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(KVASE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${KVASE_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${KVASE_SANITIZE})
  endif()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
endfunction()

function(kvase_component name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  set(target kvase_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  kvase_target_settings(${target})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_link_libraries(${target} PUBLIC ${arg_LINKS})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY KVASE_COMPONENTS ${target})
endfunction()

function(kvase_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS;PROPERTIES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  kvase_target_settings(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${arg_LINKS} GTest::gtest GTest::gtest_main GTest::gmock)
  target_compile_definitions(${name} PRIVATE KVASE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                             KVASE_BINARY_DIR="${PROJECT_BINARY_DIR}")
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 ${arg_PROPERTIES})
endfunction()
