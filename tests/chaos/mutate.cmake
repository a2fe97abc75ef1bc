# cmake -DINPUT=file -DOUTPUT=file -DMUTATION=name -P mutate.cmake
#
# A copy of a source file with one guarantee taken out. What is replaced must be there, exactly once: a
# mutation that no longer applies is an error, not a mutation of nothing.
function(replace before after)
  string(FIND "${text}" "${before}" first)
  string(FIND "${text}" "${before}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "${INPUT}: mutation ${MUTATION} does not apply: \"${before}\"")
  endif()
  string(REPLACE "${before}" "${after}" text "${text}")
  set(text "${text}" PARENT_SCOPE)
endfunction()

# Semicolons are list separators to CMake.
file(READ "${INPUT}" text)
string(REPLACE ";" "@SEMICOLON@" text "${text}")
if(MUTATION STREQUAL "fence")
  # The host admits whatever comes: of a fenced slot, session or context.
  replace("if (!admitted) return RefuseLaunch(queue, launch, Revoked(launch.slot(), launch.incarnation()))@SEMICOLON@" "")
  replace("if (context && session) {" "if (true) {")
elseif(MUTATION STREQUAL "ack_wait")
  # The daemon asks for acknowledgements and waits for none.
  replace("  if (waiting_.empty()) {
    core_->deps.executor->Post([self = shared_from_this()] { self->Fence()@SEMICOLON@ })@SEMICOLON@"
          "  if (true) {
    core_->deps.executor->Post([self = shared_from_this()] { self->Fence()@SEMICOLON@ })@SEMICOLON@")
else()
  message(FATAL_ERROR "no mutation ${MUTATION}")
endif()
string(REPLACE "@SEMICOLON@" ";" text "${text}")
file(WRITE "${OUTPUT}" "${text}")
