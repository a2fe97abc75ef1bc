// glslang's C interface as far as VkFFT calls it. Nothing is compiled here: what VkFFT takes for
// SPIR-V, and only carries to vkCreateShaderModule, is the GLSL itself. Compiling it is the
// daemon's.

#include <glslang/Include/glslang_c_interface.h>

#include <string>
#include <vector>

struct glslang_shader_s {
  std::string glsl;
};
struct glslang_program_s {
  std::string glsl;
  std::vector<unsigned int> words;
};

extern "C" {

int glslang_initialize_process() { return 1; }
void glslang_finalize_process() {}

glslang_shader_t* glslang_shader_create(const glslang_input_t* input) {
  return new glslang_shader_s{input->code};
}
void glslang_shader_delete(glslang_shader_t* shader) { delete shader; }
int glslang_shader_preprocess(glslang_shader_t*, const glslang_input_t*) { return 1; }
int glslang_shader_parse(glslang_shader_t*, const glslang_input_t*) { return 1; }
const char* glslang_shader_get_info_log(glslang_shader_t*) { return ""; }

glslang_program_t* glslang_program_create() { return new glslang_program_s; }
void glslang_program_delete(glslang_program_t* program) { delete program; }
void glslang_program_add_shader(glslang_program_t* program, glslang_shader_t* shader) {
  program->glsl = shader->glsl;
}
int glslang_program_link(glslang_program_t*, int) { return 1; }
const char* glslang_program_get_info_log(glslang_program_t*) { return ""; }

void glslang_program_SPIRV_generate(glslang_program_t* program, glslang_stage_t) {
  program->words.assign(program->glsl.size() / sizeof(unsigned int) + 1, 0);
  program->glsl.copy(reinterpret_cast<char*>(program->words.data()), program->glsl.size());
}
size_t glslang_program_SPIRV_get_size(glslang_program_t* program) { return program->words.size(); }
unsigned int* glslang_program_SPIRV_get_ptr(glslang_program_t* program) {
  return program->words.data();
}
const char* glslang_program_SPIRV_get_messages(glslang_program_t*) { return nullptr; }

}  // extern "C"
