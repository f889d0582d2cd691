/* What XLA calls for small products: it stands behind the text of xla/ffi/api/c_api.h and that of the kernel.
 *
 * Operands are (..., m, inner) and (..., inner, n) in fp32 with equal leading dimensions, of which a product each. All
 * else comes as attributes of plain numbers, so that a compiled program can be kept and used by another process. */
#include <fenv.h>

enum { MOST_PASSES = 9 };

static XLA_FFI_Error *refuse(const XLA_FFI_Api *api, XLA_FFI_Error_Code code, const char *text) {
  XLA_FFI_Error_Create_Args arguments = { XLA_FFI_Error_Create_Args_STRUCT_SIZE, 0, text, code };
  return api->XLA_FFI_Error_Create(&arguments);
}

/* The values of an array that is an attribute, if it has that name, type and size. */
static const void *attribute(const XLA_FFI_Attrs *attributes, const char *name, XLA_FFI_DataType type, size_t least,
                             size_t most, size_t *size) {
  for (int64_t i = 0; i < attributes->size; i++) {
    const XLA_FFI_ByteSpan *its = attributes->names[i];
    if (its->len != strlen(name) || memcmp(its->ptr, name, its->len)) continue;
    const XLA_FFI_Array *array = attributes->attrs[i];
    if (attributes->types[i] != XLA_FFI_AttrType_ARRAY || array->dtype != type) return 0;
    if (array->size < least || array->size > most) return 0;
    *size = array->size;
    return array->data;
  }
  return 0;
}

static int is_fp32_stack(const XLA_FFI_Buffer *buffer) {
  return buffer->dtype == XLA_FFI_DataType_F32 && buffer->rank >= 2;
}

XLA_FFI_Error *openmxu_products(XLA_FFI_CallFrame *frame) {
  const XLA_FFI_Extension_Base *extension = frame->extension_start;
  if (extension && extension->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return 0;
  }
  const XLA_FFI_Api *api = frame->api;
  if (frame->args.size != 2 || frame->rets.size != 1)
    return refuse(api, XLA_FFI_Error_Code_INVALID_ARGUMENT, "openmxu: there must be two operands and a result");
  const XLA_FFI_Buffer *a = frame->args.args[0], *b = frame->args.args[1], *out = frame->rets.rets[0];
  if (!is_fp32_stack(a) || !is_fp32_stack(b) || !is_fp32_stack(out) || a->rank != b->rank || a->rank != out->rank)
    return refuse(api, XLA_FFI_Error_Code_INVALID_ARGUMENT, "openmxu: operands must be stacks of fp32 matrices");
  int64_t rank = a->rank, m = a->dims[rank - 2], inner = a->dims[rank - 1], n = b->dims[rank - 1], count = 1;
  int fits = b->dims[rank - 2] == inner && out->dims[rank - 2] == m && out->dims[rank - 1] == n && inner > 0;
  for (int64_t i = 0; i < rank - 2; i++) {
    fits = fits && a->dims[i] == b->dims[i] && a->dims[i] == out->dims[i];
    count *= a->dims[i];
  }
  if (!fits) return refuse(api, XLA_FFI_Error_Code_INVALID_ARGUMENT, "openmxu: sizes of operands do not match");
  struct arithmetic how;
  struct format target;
  size_t size = 0, passes = 0;
  const void *formats = attribute(&frame->attrs, "how", XLA_FFI_DataType_U8, sizeof how, sizeof how, &size);
  const void *result = attribute(&frame->attrs, "target", XLA_FFI_DataType_U8, sizeof target, sizeof target, &size);
  const int64_t *tiling = attribute(&frame->attrs, "tiling", XLA_FFI_DataType_S64, 2, 2, &size);
  const int32_t *parts = attribute(&frame->attrs, "parts", XLA_FFI_DataType_S32, 2, 2 * MOST_PASSES, &passes);
  if (!formats || !result || !tiling || !parts || passes % 2)
    return refuse(api, XLA_FFI_Error_Code_INVALID_ARGUMENT, "openmxu: formats, tiling or parts are missing");
  int64_t rows = least_of(tiling[0], inner), block = tiling[1];
  if (rows < 1 || block < 1 || block % rows)
    return refuse(api, XLA_FFI_Error_Code_INVALID_ARGUMENT, "openmxu: tiling must be rows and a multiple of them");
  memcpy(&how, formats, sizeof how);
  memcpy(&target, result, sizeof target);
  struct stack left = { a->data, m * inner, inner, 1 }, right = { b->data, inner * n, 1, n };
  /* XLA's threads flush subnormal numbers. */
  fenv_t before;
  fegetenv(&before);
  fesetenv(FE_DFL_ENV);
  int failed = kernel_products(&how, &target, &left, &right, count, m, inner, n, rows, block,
                               (const int32_t(*)[2])parts, passes / 2, out->data);
  fesetenv(&before);
  return failed ? refuse(api, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "openmxu: not enough memory for operands") : 0;
}
