/* As much of glslang's C interface as VkFFT uses. Debian's own header is of a later glslang, whose
 * resource limits have members that this VkFFT's initializer does not know. Only
 * glslang_over_kcache.cc sees what is declared here, so that the values of enumerators do not
 * matter. */
#ifndef KCACHE_TESTS_CORPUS_VKFFT_HEADERS_GLSLANG_INCLUDE_GLSLANG_C_INTERFACE_H_
#define KCACHE_TESTS_CORPUS_VKFFT_HEADERS_GLSLANG_INCLUDE_GLSLANG_C_INTERFACE_H_

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { GLSLANG_SOURCE_GLSL } glslang_source_t;
typedef enum { GLSLANG_STAGE_COMPUTE } glslang_stage_t;
typedef enum { GLSLANG_CLIENT_VULKAN } glslang_client_t;
typedef enum {
  GLSLANG_TARGET_VULKAN_1_0,
  GLSLANG_TARGET_VULKAN_1_1
} glslang_target_client_version_t;
typedef enum { GLSLANG_TARGET_SPV } glslang_target_language_t;
typedef enum { GLSLANG_TARGET_SPV_1_0, GLSLANG_TARGET_SPV_1_3 } glslang_target_language_version_t;
typedef enum { GLSLANG_NO_PROFILE } glslang_profile_t;
typedef enum {
  GLSLANG_MSG_DEFAULT_BIT = 0,
  GLSLANG_MSG_SPV_RULES_BIT = 1,
  GLSLANG_MSG_VULKAN_RULES_BIT = 2
} glslang_messages_t;

/* VkFFT only fills it in: 93 limits by number, and what a loop or an index may be. */
typedef struct {
  int counts[93];
  bool limits[9];
} glslang_resource_t;

typedef struct {
  glslang_source_t language;
  glslang_stage_t stage;
  glslang_client_t client;
  glslang_target_client_version_t client_version;
  glslang_target_language_t target_language;
  glslang_target_language_version_t target_language_version;
  const char* code;
  int default_version;
  glslang_profile_t default_profile;
  int force_default_version_and_profile;
  int forward_compatible;
  glslang_messages_t messages;
  const glslang_resource_t* resource;
} glslang_input_t;

typedef struct glslang_shader_s glslang_shader_t;
typedef struct glslang_program_s glslang_program_t;

int glslang_initialize_process(void);
void glslang_finalize_process(void);

glslang_shader_t* glslang_shader_create(const glslang_input_t* input);
void glslang_shader_delete(glslang_shader_t* shader);
int glslang_shader_preprocess(glslang_shader_t* shader, const glslang_input_t* input);
int glslang_shader_parse(glslang_shader_t* shader, const glslang_input_t* input);
const char* glslang_shader_get_info_log(glslang_shader_t* shader);

glslang_program_t* glslang_program_create(void);
void glslang_program_delete(glslang_program_t* program);
void glslang_program_add_shader(glslang_program_t* program, glslang_shader_t* shader);
int glslang_program_link(glslang_program_t* program, int messages);
const char* glslang_program_get_info_log(glslang_program_t* program);
void glslang_program_SPIRV_generate(glslang_program_t* program, glslang_stage_t stage);
size_t glslang_program_SPIRV_get_size(glslang_program_t* program);
unsigned int* glslang_program_SPIRV_get_ptr(glslang_program_t* program);
const char* glslang_program_SPIRV_get_messages(glslang_program_t* program);

#ifdef __cplusplus
}
#endif

#endif /* KCACHE_TESTS_CORPUS_VKFFT_HEADERS_GLSLANG_INCLUDE_GLSLANG_C_INTERFACE_H_ */
